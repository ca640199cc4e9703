//! `orrery api-resources`.
use crate::args::{ApiResourcesArguments, Global, KindFormat};
use crate::kinds;
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::session::Session;
use orrery_proto::hub::v1::KindInfo;

pub async fn run(global: &Global, arguments: ApiResourcesArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let suffix = &session.known.group_suffix;
    let wanted = |kind: &&KindInfo| match &arguments.api_group {
        Some(group) => kind.group == *group || kind.group == format!("{group}.{suffix}"),
        None => true,
    };
    let shown: Vec<&KindInfo> = session.known.kinds.iter().filter(wanted).collect();
    if arguments.output == KindFormat::Name {
        let names = shown.iter().map(|kind| format!("{}.{}", kind.plural, kind.group));
        return print::lines(&names.collect::<Vec<_>>());
    }
    let wide = arguments.output == KindFormat::Wide;
    let mut rows = vec![header(wide)];
    rows.extend(shown.into_iter().map(|kind| row(kind, wide)));
    let lines = plain_lines(&rows, style::stdout());
    print::lines(&lines[usize::from(arguments.no_headers)..])
}

fn header(wide: bool) -> Vec<String> {
    let cells =
        ["NAME", "SHORTNAMES", "APIVERSION", "IN PROJECTS", "KIND", "WRITTEN BY", "CATEGORIES"];
    let count = if wide { cells.len() } else { cells.len() - 2 };
    cells.into_iter().take(count).map(str::to_owned).collect()
}

fn row(kind: &KindInfo, wide: bool) -> Vec<String> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut row = vec![
        kind.plural.clone(),
        or_dash(kind.short_names.join(",")),
        kinds::api_version(kind),
        (!kind.cluster_scoped).to_string(),
        kind.kind.clone(),
    ];
    if wide {
        row.push(if kind.server_owned { "server" } else { "people" }.to_owned());
        row.push(or_dash(kind.categories.join(",")));
    }
    row
}

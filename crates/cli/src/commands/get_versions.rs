//! `orrery get KIND NAME --versions`: what there is of an object.
use super::get::Query;
use crate::args::Format;
use crate::output::{print, style, table::plain_lines};
use orrery_api::value_to_yaml;
use orrery_proto::hub::v1::{KindInfo, ListVersionsRequest, Version};
use serde_json::{Value, json};

pub async fn run(query: &Query, kind: &KindInfo, name: &str) -> anyhow::Result<()> {
    let resource = query.resource(kind, name)?;
    let request = ListVersionsRequest { name: Some(resource.name) };
    let versions = query.session.server.list_versions(request).await?.versions;
    match &query.format {
        Format::Table | Format::Wide => {
            if versions.is_empty() {
                print::note(&format!(
                    "no versions of {} {name}: spec.version names them",
                    kind.singular
                ));
            }
            let lines = plain_lines(&rows(&versions, query.headers), style::stdout());
            print::lines(if versions.is_empty() { &[] } else { &lines })
        }
        Format::Name => {
            print::lines(&versions.into_iter().map(|version| version.name).collect::<Vec<_>>())
        }
        Format::Json => print::line(&serde_json::to_string_pretty(&listed(&versions))?),
        Format::Yaml => print::text(&value_to_yaml(&listed(&versions))),
        Format::JsonPath(template) => print::text(&template.render(&listed(&versions))),
    }
}

fn rows(versions: &[Version], headers: bool) -> Vec<Vec<String>> {
    let head = ["VERSION", "GENERATION", "CURRENT", "UNTIL"].map(str::to_owned).to_vec();
    let row = |version: &Version| {
        let Version { name, generation, current, until } = version;
        let current = if *current { "yes" } else { "no" };
        let until = if until.is_empty() { "-" } else { until };
        vec![name.clone(), generation.to_string(), current.to_owned(), until.to_owned()]
    };
    headers.then_some(head).into_iter().chain(versions.iter().map(row)).collect()
}

/// The same as REST answers.
fn listed(versions: &[Version]) -> Value {
    let item = |version: &Version| {
        let Version { name, generation, current, until } = version;
        let mut item = json!({"name": name, "generation": generation, "current": current});
        if !until.is_empty() {
            item["until"] = json!(until);
        }
        item
    };
    let items: Vec<Value> = versions.iter().map(item).collect();
    json!({"kind": "VersionList", "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_one_has_no_end() {
        let version = |name: &str, until: &str| Version {
            name: name.into(),
            generation: 2,
            current: until.is_empty(),
            until: until.into(),
        };
        let versions = [version("1.1", ""), version("1.0", "2026-01-01T00:00:00Z")];
        let rows = rows(&versions, true);
        assert_eq!(rows[1], ["1.1", "2", "yes", "-"]);
        assert_eq!(rows[2], ["1.0", "2", "no", "2026-01-01T00:00:00Z"]);
        assert_eq!(listed(&versions)["items"][1]["until"], "2026-01-01T00:00:00Z");
        assert_eq!(listed(&versions)["items"][0].get("until"), None);
    }
}

//! `orrery events`.
use super::happenings::{self, Happening, Of};
use crate::args::{EventsArguments, Global};
use crate::exit::Interrupted;
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::session::{Scope, Session};
use crate::signals::StopSignals;
use crate::targets::{self, Resource};
use crate::watching::{Known, News, Patience, Watches};

pub async fn run(global: &Global, arguments: EventsArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let project = session.project(arguments.project.as_deref(), arguments.all_projects);
    let regarding = match &arguments.regarding {
        Some(word) => {
            let (kind, name) = targets::slash(&session.known, word)?;
            Some(Resource::new(&kind, &project, &name))
        }
        None => None,
    };
    let scope = happenings::scope(project, regarding.as_ref(), arguments.r#type.as_deref());
    let headers = !arguments.no_headers;
    let of = if scope.project.is_empty() { Of::All } else { Of::Project };
    if arguments.watch {
        return follow(&session, &scope, of, headers).await;
    }
    let found = happenings::list(&session, &scope).await?;
    if found.is_empty() {
        let place = match scope.project.as_str() {
            "" => String::new(),
            project => format!(" in project {project} (-A looks in all)"),
        };
        print::note(&format!("no events{place}"));
        return Ok(());
    }
    let lines = plain_lines(&happenings::rows(&found, print::now(), of), style::stdout());
    print::lines(&lines[usize::from(!headers)..])
}

/// Everything so far, then each event as it happens.
async fn follow(session: &Session, scope: &Scope, of: Of, headers: bool) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut watches = Watches::default();
    watches.add(session, happenings::kind(session)?, scope, "", Patience::Later)?;
    let mut known = Known::default();
    loop {
        let (_, change) = tokio::select! {
            () = signals.next() => return Err(Interrupted.into()),
            change = watches.next() => change,
        };
        let first = !known.is_complete();
        let told = known.take(change?).into_iter().filter_map(|news| match news {
            News::Is(event) => Some(Happening(event)),
            News::Gone(_) => None,
        });
        let mut told: Vec<Happening> = told.collect();
        happenings::sort(&mut told);
        show(&told, of, headers && first && known.is_complete())?;
    }
}

/// Lines with columns of a fixed width, because what comes later is not known yet.
fn show(events: &[Happening], of: Of, headers: bool) -> anyhow::Result<()> {
    const WIDTHS: [usize; 6] = [12, 9, 5, 7, 16, 28];
    let widths = if of == Of::All { &WIDTHS[..] } else { &WIDTHS[1..] };
    let now = print::now();
    let style = style::stdout();
    let mut lines = Vec::new();
    let pad = |row: &[String]| {
        let cells = row.iter().enumerate().map(|(at, cell)| match widths.get(at) {
            Some(width) => format!("{cell:<width$}"),
            None => cell.clone(),
        });
        cells.collect::<Vec<_>>().join("   ")
    };
    if headers {
        lines.push(style.strong(&pad(&happenings::header(of))));
    }
    lines.extend(events.iter().map(|event| pad(&event.row(now, of))));
    print::lines(&lines)
}

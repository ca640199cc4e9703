//! `orrery delete`.
use super::apply::WINDOW;
use super::deleting::{self, Deleting};
use crate::args::{DeleteArguments, Global};
use crate::manifests;
use crate::output::{print, style};
use crate::session::{Session, reason};
use crate::targets::{Choice, Resource};
use crate::waiting::{self, Awaited, Goal};
use anyhow::bail;
use futures::stream::{self, StreamExt as _};

pub async fn run(global: &Global, arguments: DeleteArguments) -> anyhow::Result<()> {
    let manifests = match arguments.files.as_slice() {
        [] => Vec::new(),
        files => manifests::read(files, arguments.project.as_deref())?,
    };
    let session = Session::open(global, &arguments.connection).await?;
    let mut doomed = Vec::new();
    if arguments.files.is_empty() {
        doomed = chosen(&session, &arguments).await?;
    }
    // What was applied last goes first: what depends on others stands behind them.
    for manifest in manifests.iter().rev() {
        doomed.push(Resource::declared(&session.known, &manifest.value)?);
    }
    let (awaited, failures) = ask(&session, doomed, &arguments).await?;
    waiting::wait(&session, awaited, arguments.timeout, waiting::Style::Results).await?;
    match failures.as_slice() {
        [] => Ok(()),
        failures => bail!("{}", failures.join("\n")),
    }
}

async fn chosen(session: &Session, arguments: &DeleteArguments) -> anyhow::Result<Vec<Resource>> {
    let choice = Choice {
        words: &arguments.words,
        project: arguments.project.as_deref(),
        all_projects: arguments.all_projects,
        selector: arguments.selector.as_deref(),
        all: arguments.all,
    };
    let found = choice.resources(session).await?;
    if found.is_empty() {
        print::note("nothing to delete");
    }
    Ok(found)
}

/// Asks for each of them to go, so that they go side by side; says what is gone at once, and
/// returns the others. What cannot be deleted is no reason to leave out the rest.
async fn ask(
    session: &Session,
    doomed: Vec<Resource>,
    arguments: &DeleteArguments,
) -> anyhow::Result<(Vec<Awaited>, Vec<String>)> {
    let style = style::stdout();
    let (mut awaited, mut failures) = (Vec::new(), Vec::new());
    let how = Deleting { dry_run: arguments.dry_run, cascade: arguments.cascade };
    let asked = doomed.into_iter().map(|resource| async move {
        let response = deleting::request(session, &resource, "", how).await;
        (resource, response)
    });
    // Files have an order, which is kept.
    let window = if arguments.files.is_empty() { WINDOW } else { 1 };
    let mut asked = std::pin::pin!(stream::iter(asked).buffered(window));
    while let Some((resource, response)) = asked.next().await {
        let response = match response {
            Ok(Some(response)) => response,
            Ok(None) => continue,
            Err(error) => match reason(&error) {
                Some("NotFound") if arguments.ignore_not_found => continue,
                Some(_) => {
                    failures.push(format!("{error:#}"));
                    continue;
                }
                None => return Err(error),
            },
        };
        if arguments.dry_run {
            waiting::say(&resource, &format!("{} (dry run)", style.good("deleted")))?;
        } else if response.gone {
            waiting::say(&resource, &style.good("deleted"))?;
        } else if arguments.no_wait {
            waiting::say(&resource, &style.busy("is being deleted"))?;
        } else {
            let object = print::json(response.resource.as_ref())?;
            let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
            awaited.push(Awaited { resource, goal: Goal::Gone { uid } });
        }
    }
    Ok((awaited, failures))
}

//! `orrery wait`.
use crate::args::{Aim, Global, WaitArguments};
use crate::output::print;
use crate::session::Session;
use crate::targets::{Choice, Resource};
use crate::waiting::{self, Awaited, Goal};
use anyhow::bail;

pub async fn run(global: &Global, arguments: WaitArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice {
        words: &arguments.words,
        project: arguments.project.as_deref(),
        all_projects: arguments.all_projects,
        selector: arguments.selector.as_deref(),
        all: arguments.all,
    };
    let resources = choice.resources(&session).await?;
    if resources.is_empty() {
        // What is not there is deleted, and never ready.
        return match arguments.aim {
            Aim::Delete => {
                print::note("nothing to wait for");
                Ok(())
            }
            Aim::Condition { .. } | Aim::Create | Aim::JsonPath { .. } => {
                bail!("there is nothing to wait for: nothing was selected")
            }
        };
    }
    if !matches!(arguments.aim, Aim::Delete | Aim::Create) {
        check_present(&session, &resources).await?;
    }
    let awaited = resources.into_iter().map(|resource| {
        let goal = Goal::Aim(arguments.aim.clone());
        Awaited { resource, goal }
    });
    let outcome = waiting::wait(
        &session,
        awaited.collect(),
        Some(arguments.timeout),
        waiting::Style::Results,
    );
    outcome.await.map_err(|error| match error.is::<crate::exit::Interrupted>() {
        true => error,
        false => error.context(format!("wait for {}", arguments.aim)),
    })
}

/// A name with a slip in it is said at once, not when the time is up.
async fn check_present(session: &Session, resources: &[Resource]) -> anyhow::Result<()> {
    for resource in resources {
        session.get(&resource.name).await?;
    }
    Ok(())
}

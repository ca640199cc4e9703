//! `orrery restart`.
use crate::args::{Global, RestartArguments};
use crate::changing;
use crate::output::print;
use crate::session::Session;
use crate::targets::Choice;
use anyhow::bail;
use serde_json::{Value, json};

/// What can be restarted.
const KIND: &str = "Workload";

pub async fn run(global: &Global, arguments: RestartArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice {
        words: &arguments.words,
        project: arguments.project.as_deref(),
        all_projects: false,
        selector: arguments.selector.as_deref(),
        all: arguments.all,
    };
    let resources = choice.resources(&session).await?;
    if let Some(other) = resources.iter().find(|resource| resource.kind.kind != KIND) {
        bail!("{} cannot be restarted; workloads can", other.title());
    }
    let time = print::now().to_string();
    for resource in &resources {
        let restarted = |live: &Value| Ok(restarted(live, &time));
        let changed = changing::change(&session, resource, arguments.dry_run, restarted).await?;
        changing::say(resource, changed, "restarting", arguments.dry_run)?;
    }
    Ok(())
}

/// The workload with another text that says when it was restarted; its copies are replaced for that.
fn restarted(live: &Value, time: &str) -> Value {
    let mut next = live.clone();
    json_patch::merge(&mut next, &json!({ "spec": { "restartedAt": time } }));
    next
}

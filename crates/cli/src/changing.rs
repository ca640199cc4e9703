//! Read, change, write at the revision that was read; again when somebody was faster.
use crate::output::{print, style};
use crate::session::{Session, Writing, reason};
use crate::targets::Resource;
use orrery_client::Error;
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::apply_response::Outcome;
use serde_json::Value;

/// How often a change is tried when others change the same resource meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// Changes one resource. `change` is a pure function from what is there to what should be.
pub async fn change(
    session: &Session,
    resource: &Resource,
    dry_run: bool,
    change: impl Fn(&Value) -> anyhow::Result<Value>,
) -> anyhow::Result<Outcome> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let live = session.get(&resource.name).await?;
        let mut next = change(&live)?;
        pin(&mut next, &live);
        if next == live {
            return Ok(Outcome::Unchanged);
        }
        match session.write(&next, Mode::Replace, Writing { dry_run, ..Writing::default() }).await {
            Ok((_, outcome)) => return Ok(outcome),
            Err(error) if attempt < ATTEMPTS_MAX && reason(&error) == Some("Conflict") => {}
            Err(error) => return Err(readable(error, resource)),
        }
    }
}

/// The revision that the change was made from.
pub fn pin(next: &mut Value, live: &Value) {
    if let Some(metadata) = next.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), live["metadata"]["resourceVersion"].clone());
    }
}

/// Each field that is wrong on a line of its own.
fn readable(error: anyhow::Error, resource: &Resource) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::Api(answer)) if !answer.violations.is_empty() => {
            let each = answer.violations.iter().map(|v| format!("{}: {}", v.field, v.message));
            let lines: Vec<String> = each.collect();
            anyhow::anyhow!("{} was not changed:\n{}", resource.title(), lines.join("\n"))
        }
        Some(_) | None => error,
    }
}

/// `workload/hello labeled`, with the word of the command.
pub fn say(resource: &Resource, outcome: Outcome, done: &str, dry_run: bool) -> anyhow::Result<()> {
    let style = style::stdout();
    let word = match outcome {
        Outcome::Unchanged => style.faint("unchanged"),
        Outcome::Created | Outcome::Changed => style.good(done),
    };
    let note = if dry_run { " (dry run)" } else { "" };
    print::line(&format!("{} {word}{note}", resource.title()))
}

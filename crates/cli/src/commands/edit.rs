//! `orrery edit`: a resource in the person's own editor.
//!
//! ```text
//!   read ─> editor ─> what changed ─> onto what is there now ─> write at that revision
//!              ^                          │ both changed the same      │ refused
//!              └── with a comment that says what is wrong ─────────────┘
//! ```
use super::editor::{Buffer, Edited, Problem};
use crate::args::{EditArguments, Global};
use crate::changing::pin;
use crate::merging;
use crate::output::{print, style};
use crate::session::{Session, Writing, reason};
use crate::targets::{Choice, Resource};
use orrery_client::Error;
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::apply_response::Outcome;
use serde_json::Value;

/// How often somebody else may be faster before the person is told.
const ATTEMPTS_MAX: usize = 10;

pub async fn run(global: &Global, arguments: EditArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice::named(&arguments.words, arguments.project.as_deref());
    for resource in choice.resources(&session).await? {
        edit(&session, &resource).await?;
    }
    Ok(())
}

async fn edit(session: &Session, resource: &Resource) -> anyhow::Result<()> {
    let mut base = without_status(session.get(&resource.name).await?);
    let mut buffer = Buffer::new(resource, &base)?;
    loop {
        let edited = match buffer.open().await? {
            Edited::Unchanged => {
                return print::line(&format!(
                    "{} {}",
                    resource.title(),
                    style::stdout().faint("unchanged")
                ));
            }
            // The same text again after an error: the person gives up.
            Edited::GivenUp(problem) => {
                let kept = buffer.keep()?;
                anyhow::bail!("{problem}\nyour changes are kept in {}", kept.display());
            }
            Edited::Unreadable(problem) => {
                buffer.complain(Problem::Error(problem));
                continue;
            }
            Edited::Value(value) => value,
        };
        match store(session, resource, &base, &edited).await? {
            Stored::Done(Outcome::Unchanged) => return buffer_done(resource, "unchanged"),
            Stored::Done(Outcome::Created | Outcome::Changed) => {
                return buffer_done(resource, "edited");
            }
            Stored::Overlap { both, wanted, live } => {
                buffer.rewrite(&wanted);
                let text =
                    format!("somebody else changed {both} meanwhile; yours would overwrite it");
                buffer.complain(Problem::Question(text));
                base = live;
            }
            Stored::Refused(error) => match error.downcast_ref::<Error>() {
                Some(Error::Api(answer)) => buffer.complain(Problem::Error(describe(answer))),
                Some(_) | None => {
                    let kept = buffer.keep()?;
                    print::note(&format!("your changes are kept in {}", kept.display()));
                    return Err(error);
                }
            },
        }
    }
}

/// What became of an edit.
enum Stored {
    Done(Outcome),
    /// Both sides changed the same: the person has to look.
    Overlap {
        both: String,
        wanted: Value,
        live: Value,
    },
    Refused(anyhow::Error),
}

/// Puts the person's changes onto what is there now, and writes it. Who is faster with changes of
/// other fields (a controller with a status, mostly) is taken in without a question.
async fn store(
    session: &Session,
    resource: &Resource,
    base: &Value,
    edited: &Value,
) -> anyhow::Result<Stored> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let live = without_status(session.get(&resource.name).await?);
        let both = merging::overlap(base, edited, &live);
        let wanted = merging::rebase(base, edited, &live);
        if !both.is_empty() {
            return Ok(Stored::Overlap { both: both.join(", "), wanted, live });
        }
        match write(session, &wanted, &live).await {
            Ok(outcome) => return Ok(Stored::Done(outcome)),
            Err(error) if attempt < ATTEMPTS_MAX && reason(&error) == Some("Conflict") => {}
            Err(error) => return Ok(Stored::Refused(error)),
        }
    }
}

fn buffer_done(resource: &Resource, word: &str) -> anyhow::Result<()> {
    print::line(&format!("{} {}", resource.title(), style::stdout().good(word)))
}

async fn write(session: &Session, wanted: &Value, live: &Value) -> anyhow::Result<Outcome> {
    let mut next = wanted.clone();
    pin(&mut next, live);
    session.write(&next, Mode::Replace, Writing::default()).await.map(|(_, outcome)| outcome)
}

fn describe(error: &orrery_client::ApiError) -> String {
    if error.violations.is_empty() {
        return error.message.clone();
    }
    let each = error.violations.iter().map(|v| format!("{}: {}", v.field, v.message));
    each.collect::<Vec<_>>().join("\n")
}

/// People do not write the status, so they need not scroll past it.
fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.shift_remove("status");
    }
    object
}

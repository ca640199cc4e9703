//! `orrery apply`.
use super::artifact::Beside;
use super::prune;
use crate::args::{ApplyArguments, Global};
use crate::manifests;
use crate::output::{print, style};
use crate::scheme;
use crate::session::{Session, Writing};
use crate::targets::Resource;
use crate::waiting::{self, Awaited, Goal};
use anyhow::bail;
use futures::stream::{self, StreamExt as _};
use orrery_api::Manifest;
use orrery_client::{ApiError, Error};
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::apply_response::Outcome;
use serde_json::Value;
use std::collections::BTreeSet;

/// Resources that are on their way at once: enough to fill a durable commit of the server, and half
/// of what one connection may ask for at once.
pub const WINDOW: usize = 32;

pub async fn run(global: &Global, arguments: ApplyArguments) -> anyhow::Result<()> {
    let mut manifests = manifests::read(&arguments.files, arguments.project.as_deref())?;
    let session = Session::open(global, &arguments.connection).await?;
    for manifest in &mut manifests {
        manifests::mark_applied(&mut manifest.value);
    }
    manifests::check(&manifests, &session.known, "applied")?;
    let beside = Beside::find(&manifests, &session.known)?;
    let how = Writing {
        dry_run: arguments.dry_run,
        force: arguments.force_conflicts,
        include_lineage: arguments.include_lineage,
    };
    let mut applying = Applying::new(&session, how);
    let Done { mut failures, applied } = applying.apply_all(&manifests, arguments.wait).await?;
    match failures.len() {
        0 => {}
        1 => return Err(failures.remove(0)),
        _ => {
            let lines: Vec<String> = failures.iter().map(|error| format!("{error:#}")).collect();
            bail!("{}", lines.join("\n"));
        }
    }
    beside.upload(&session, how).await?;
    let mut awaited = Vec::new();
    if arguments.prune {
        let selector = arguments.selector.as_deref().unwrap_or_default();
        awaited = prune::run(&session, &manifests, selector, arguments.dry_run).await?;
    }
    if arguments.wait {
        awaited.extend(ready(&session, &applied)?);
        let timeout = Some(arguments.timeout);
        waiting::wait(&session, awaited, timeout, waiting::Style::Changes).await?;
    }
    Ok(())
}

/// A refusal of the server about one resource.
#[derive(Debug)]
struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn is_refusal(error: &anyhow::Error) -> bool {
    error.is::<Refusal>()
}

/// Others hold fields that the file would change.
fn is_conflict(answer: &ApiError) -> bool {
    answer.reason == "Conflict" && !answer.violations.is_empty()
}

/// What to do about a file that was saved from a server and speaks of an object as it was then.
fn pinned(manifest: &Manifest, answer: &ApiError) -> Option<&'static str> {
    let metadata = &manifest.value["metadata"];
    let is_pinned = metadata["resourceVersion"].is_string() || metadata["uid"].is_string();
    let is_other = matches!(answer.reason.as_str(), "NotFound" | "Conflict");
    (is_pinned && is_other).then_some(
        "\nthe file names one state of one object: take resourceVersion and uid out of its metadata \
         to apply it to whatever is there",
    )
}

/// Everything that was applied is to be ready.
fn ready(session: &Session, applied: &[Value]) -> anyhow::Result<Vec<Awaited>> {
    let shared = scheme::shared(&session.known)?;
    let mut awaited = Vec::new();
    for object in applied {
        let resource = Resource::declared(&session.known, object)?;
        let definition = shared.as_ref().and_then(|s| scheme::definition(s, &resource.kind));
        let has =
            |path: &str| definition.as_ref().is_some_and(|k| k.schema().field(path).is_some());
        let reports = has("status.observedGeneration") && has("status.conditions");
        awaited.push(Awaited { resource, goal: Goal::Ready { reports } });
    }
    Ok(awaited)
}

/// What came of all manifests together.
#[derive(Default)]
struct Done {
    failures: Vec<anyhow::Error>,
    /// As they are now, where somebody waits for them.
    applied: Vec<Value>,
}

/// Says what became of one manifest.
fn tell(manifest: &Manifest, outcome: Outcome, how: Writing) -> anyhow::Result<()> {
    let style = style::stdout();
    let word = match outcome {
        Outcome::Created => style.good("created"),
        Outcome::Changed => style.busy("changed"),
        Outcome::Unchanged => style.faint("unchanged"),
    };
    let note = if how.dry_run { " (dry run)" } else { "" };
    print::line(&format!("{} {word}{note}", manifests::title(manifest)))
}

/// Sends manifests; those of one wave side by side.
pub struct Applying<'a> {
    session: &'a Session,
    how: Writing,
    /// Projects that would be there if this were no dry run.
    imagined: BTreeSet<String>,
}

impl<'a> Applying<'a> {
    pub fn new(session: &'a Session, how: Writing) -> Self {
        Self { session, how, imagined: BTreeSet::new() }
    }

    /// Sends everything, wave by wave, and tells of each in the order of the files.
    async fn apply_all(&mut self, manifests: &[Manifest], keep: bool) -> anyhow::Result<Done> {
        let mut done = Done::default();
        for wave in manifests::waves(manifests) {
            self.apply_wave(wave, keep, &mut done).await?;
            self.imagine(wave);
        }
        Ok(done)
    }

    async fn apply_wave(
        &self,
        wave: &[Manifest],
        keep: bool,
        done: &mut Done,
    ) -> anyhow::Result<()> {
        let answers = wave.iter().map(|manifest| self.send(manifest));
        let mut answers = std::pin::pin!(stream::iter(answers).buffered(WINDOW));
        for manifest in wave {
            match answers.next().await {
                // It took the change, and takes it along.
                Some(Ok((object, _))) if object["metadata"]["deletionTimestamp"].is_string() => {
                    let (title, advice) =
                        (manifests::title(manifest), "wait until it is gone, then apply it again");
                    let refusal = format!("{title} is being deleted; {advice}");
                    done.failures.push(Refusal(refusal).into());
                }
                Some(Ok((object, outcome))) => {
                    tell(manifest, outcome, self.how)?;
                    done.applied.extend(keep.then_some(object));
                }
                // What cannot be stored is no reason to leave out the rest; a lost connection is.
                Some(Err(error)) if is_refusal(&error) => done.failures.push(error),
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        Ok(())
    }

    /// After a dry run of these, their projects would be there.
    pub fn imagine(&mut self, done: &[Manifest]) {
        if !self.how.dry_run {
            return;
        }
        let projects = done.iter().filter(|manifest| manifest.value["kind"] == "Project");
        let names = projects.filter_map(|project| project.value["metadata"]["name"].as_str());
        self.imagined.extend(names.map(str::to_owned));
    }

    /// Sends one manifest, and says in whose words it was refused.
    pub async fn send(&self, manifest: &Manifest) -> anyhow::Result<(Value, Outcome)> {
        let title = manifests::title(manifest);
        match self.session.write(&manifest.value, Mode::Apply, self.how).await {
            Ok(written) => Ok(written),
            Err(error) => match error.downcast_ref::<Error>() {
                Some(Error::Api(answer))
                    if answer.reason == "NotFound" && self.imagines(manifest) =>
                {
                    Ok((self.imagined_object(manifest)?, Outcome::Created))
                }
                Some(Error::Api(answer)) if is_conflict(answer) => {
                    let advice = "change the file, or take these fields with --force-conflicts";
                    Err(Refusal(format!("{title} was not applied: {answer}\n{advice}")).into())
                }
                Some(Error::Api(answer)) if !answer.violations.is_empty() => {
                    let located = manifests::located(manifest, &answer.violations);
                    Err(Refusal(format!("{title} was not applied:\n{located}")).into())
                }
                Some(Error::Api(answer)) => {
                    let advice = pinned(manifest, answer).unwrap_or_default();
                    let place = manifest.at("");
                    Err(Refusal(format!("{place}: apply {title}: {answer}{advice}")).into())
                }
                Some(_) | None => Err(error),
            },
        }
    }

    /// Whether its project is one that a real run would have made by now.
    fn imagines(&self, manifest: &Manifest) -> bool {
        let metadata = &manifest.value["metadata"];
        let project = metadata["project"].as_str().or(metadata["namespace"].as_str());
        project.is_some_and(|project| self.imagined.contains(project))
    }

    /// What the server would make of it: the manifest with its defaults.
    fn imagined_object(&self, manifest: &Manifest) -> anyhow::Result<Value> {
        let Some(scheme) = scheme::shared(&self.session.known)? else {
            return Ok(manifest.value.clone());
        };
        let decoded = scheme.read_value(&manifest.value, &orrery_api::DecodeOptions::default())?;
        let mut object = decoded.object;
        object.default();
        let text = object.to_json(&orrery_api::JsonOptions::default());
        Ok(serde_json::from_str(&text)?)
    }
}

//! One look at git and at the system, and what follows from it.
//!
//! ```text
//!   fetch ─> read files ─┐
//!                        ├─> plan ─> commit and push ─> apply and delete
//!   list objects ────────┘     ^            │
//!                              └─ overtaken ┘
//! ```
use crate::content;
use crate::files::{self, Edits, Wanted};
use crate::git::{Commit, Copy, GitError, Pushed, Remote, Signer};
use crate::plan::{self, Declared, Key, Settings, Step, Steps};
use crate::source::{Document, Problem, Reader, Source};
use crate::standing::{self, Standing};
use crate::system::{Found, System};
use futures::StreamExt as _;
use orrery_hub::{Error, ObjectName};
use orrery_proto::core::v1::{GitSyncSpec, GitWriteBack};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often a push is tried again because someone else was faster.
const PUSHES_MAX: usize = 5;
/// Objects that are written at once.
const AT_ONCE: usize = 16;

/// Why nothing came of a look.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Git(#[from] GitError),
    #[error("{0}")]
    Hub(#[from] Error),
    #[error("there is no {0}")]
    Missing(String),
    #[error(
        "{PUSHES_MAX} times in a row someone else pushed at the same moment; it is tried again later"
    )]
    Overtaken,
}

impl Failure {
    /// One word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Git(error) => error.reason(),
            Self::Hub(_) => "StoreFailed",
            Self::Missing(_) => "NotFound",
            Self::Overtaken => "Overtaken",
        }
    }
}

/// What came of a look.
#[derive(Debug, Default)]
pub struct Outcome {
    pub commit: String,
    /// Objects and files that were changed.
    pub changes: usize,
    /// Objects that come from git now.
    pub resources: usize,
    pub problems: Vec<Problem>,
}

/// Told how far a look is.
#[async_trait::async_trait]
pub trait Progress: Send + Sync {
    async fn tell(&self, commit: &str, done: usize, all: usize);
}

pub struct Round<'a> {
    pub spec: &'a GitSyncSpec,
    pub settings: Settings,
    pub remote: Remote,
    /// Signs what is committed here, where somebody wants that.
    pub signer: Option<Signer>,
    pub system: System,
    /// The commit that was last the same as the project.
    pub synced: String,
    /// Seconds of the epoch.
    pub now: i64,
    pub progress: &'a dyn Progress,
}

/// What both sides say.
struct Sides {
    copy: Copy,
    commit: Option<String>,
    source: Source,
    declared: BTreeMap<Key, Declared>,
    found: BTreeMap<Key, Found>,
}

impl Round<'_> {
    pub async fn run(mut self) -> Result<Outcome, Failure> {
        for _ in 0..PUSHES_MAX {
            let sides = self.look().await?;
            self.settings.readable = sides.source.problems.is_empty();
            let before = self.before(&sides).await?;
            let present =
                sides.found.iter().map(|(key, it)| (key.clone(), self.system.present(it)));
            let present = present.collect();
            let steps = plan::plan(&self.settings, &sides.declared, &present, before.as_ref());
            let mut outcome = Outcome { problems: sides.source.problems.clone(), ..<_>::default() };
            let edits = self.edits(&sides, &steps, &mut outcome).await?;
            match self.write(&sides, &edits).await? {
                Some(commit) => outcome.commit = commit,
                None => continue,
            }
            outcome.changes += edits.changes.len();
            self.carry_out(&sides, &steps, &edits, &mut outcome).await;
            return Ok(outcome);
        }
        Err(Failure::Overtaken)
    }

    async fn look(&self) -> Result<Sides, Failure> {
        let (copy, commit) = self.remote.fetch().await?;
        let reader = self.reader();
        let source = match &commit {
            Some(commit) => reader.read(&copy, commit).await?,
            None => None,
        };
        let nothing = source.is_none();
        let source = source.unwrap_or_default();
        let found = self.system.observe(&source.documents).await?;
        if nothing {
            self.check_missing(commit.is_some(), &found)?;
        }
        let declared = source.declared();
        Ok(Sides { copy, commit, source, declared, found })
    }

    fn reader(&self) -> Reader<'_> {
        let (scheme, project) = (self.system.hub.scheme(), &self.system.project);
        Reader { scheme, project, folder: &self.settings.folder }
    }

    /// A branch or folder that is not there may be made by the first write. Whoever was in sync with it
    /// before does not lose everything because of a name.
    fn check_missing(&self, branch: bool, found: &BTreeMap<Key, Found>) -> Result<(), Failure> {
        let ours = |it: &Found| {
            let lineage = self.system.present(it).lineage;
            lineage.is_some_and(|known| known.origin == self.settings.origin)
        };
        if !self.settings.written.is_empty() && !found.values().any(ours) {
            return Ok(());
        }
        Err(Failure::Missing(match branch {
            true => format!("folder {:?} in the repository", self.settings.folder),
            false => format!("branch {:?} in the repository", self.remote.branch),
        }))
    }

    /// What git said when both sides were last the same.
    async fn before(&self, sides: &Sides) -> Result<Option<BTreeMap<Key, String>>, Failure> {
        let digests = |declared: &BTreeMap<Key, Declared>| -> BTreeMap<Key, String> {
            declared.iter().map(|(key, it)| (key.clone(), it.digest.clone())).collect()
        };
        if self.settings.written.is_empty() || self.synced.is_empty() {
            return Ok(None);
        }
        if sides.commit.as_deref() == Some(self.synced.as_str()) {
            return Ok(Some(digests(&sides.declared)));
        }
        if !self.remote.bring(&sides.copy, &self.synced).await? {
            return Ok(None);
        }
        let source = self.reader().read(&sides.copy, &self.synced).await?;
        Ok(source.map(|source| digests(&source.declared())))
    }

    /// What changes in git.
    async fn edits(
        &self,
        sides: &Sides,
        steps: &Steps,
        outcome: &mut Outcome,
    ) -> Result<Edits, Failure> {
        let mut wanted = BTreeMap::new();
        for key in steps.iter().filter(|(_, it)| matches!(it, Step::Write(_))).map(|(key, _)| key) {
            let Some(found) = sides.found.get(key) else { continue };
            if let Err(error) = self.system.may_write(found) {
                outcome.problems.push(problem(key, found.object.kind().kind(), "", &error));
                continue;
            }
            let files = self.system.download(found).await?;
            let (kind, value) = (&**found.object.kind(), &found.value);
            wanted.insert(key.clone(), Wanted { kind, value, files });
        }
        let edits = files::edits(&sides.source, &self.settings.folder, steps, &wanted);
        outcome.problems.extend(edits.problems.iter().cloned());
        Ok(edits)
    }

    /// Commits and pushes; the commit that is the latest afterwards, `None` if someone else was faster.
    async fn write(&self, sides: &Sides, edits: &Edits) -> Result<Option<String>, Failure> {
        let latest = sides.commit.clone().unwrap_or_default();
        if edits.changes.is_empty() {
            return Ok(Some(latest));
        }
        let none = GitWriteBack::default();
        let back = self.spec.write_back.as_ref().unwrap_or(&none);
        let objects = sides.found.iter().map(|(key, it)| (key, it.object.kind()));
        let documents = sides.source.documents.iter().map(|(key, it)| (key, it.object.kind()));
        let kinds =
            documents.chain(objects).map(|(key, kind)| (key.clone(), kind.kind().to_owned()));
        let commit = Commit {
            parent: sides.commit.clone(),
            author: back.author_name().to_owned(),
            email: back.author_email().to_owned(),
            message: files::message(&self.settings.origin.sync, &kinds.collect(), edits),
            time: self.now,
        };
        let id = sides.copy.commit(&commit, &edits.changes, self.signer.as_ref()).await?;
        match self.remote.push(&sides.copy, &id).await? {
            Pushed::Done => Ok(Some(id)),
            Pushed::Overtaken => Ok(None),
        }
    }

    /// Does in the system what is left to do. One that fails does not stop the others.
    async fn carry_out(&self, sides: &Sides, steps: &Steps, edits: &Edits, outcome: &mut Outcome) {
        let todo: Vec<(&Key, &Step)> = steps.iter().collect();
        let (done, all) = (AtomicUsize::new(0), todo.len());
        let commit = outcome.commit.clone();
        let one = |(key, step): (&'_ Key, &'_ Step)| {
            let (key, step, done, commit) = (key.clone(), step.clone(), &done, &commit);
            async move {
                self.progress.tell(commit, done.load(Ordering::Relaxed), all).await;
                let result = self.step(sides, edits, &key, &step).await;
                let file = edits.places.get(&key).map(String::as_str);
                let file = file.or(sides.declared.get(&key).map(|it| it.file.as_str()));
                let standing = standing::after(&step, result.as_ref().copied(), file, commit);
                self.note(sides, &key, standing).await;
                done.fetch_add(1, Ordering::Relaxed);
                (key, step, result)
            }
        };
        let mut results =
            futures::stream::iter(todo.into_iter().map(one)).buffer_unordered(AT_ONCE);
        let mut failed = BTreeSet::new();
        while let Some((key, step, result)) = results.next().await {
            match result {
                Ok(()) => {
                    outcome.changes += usize::from(matches!(step, Step::Apply | Step::Delete))
                }
                Err(error) => {
                    let document = sides.source.documents.get(&key);
                    let kind = sides.found.get(&key).map(|it| it.object.kind());
                    let kind = kind.or(document.map(|it| it.object.kind()));
                    let (kind, file) =
                        (kind.map_or("", |kind| kind.kind()), document.map_or("", |it| &it.file));
                    outcome.problems.push(problem(&key, kind, file, &error));
                    failed.insert(key);
                }
            }
        }
        drop(results);
        for (key, found) in sides.found.iter().filter(|(key, _)| !steps.contains_key(*key)) {
            let Some(conditions) = found.object.conditions() else { continue };
            let (present, declared) =
                (self.system.present(found), sides.declared.contains_key(key));
            let unread = &sides.source.problems;
            let settings = &self.settings;
            let standing = standing::at_rest(
                settings,
                &present,
                declared,
                &conditions,
                unread,
                &outcome.commit,
            );
            self.note(sides, key, standing).await;
        }
        let declared = sides.declared.keys().filter(|key| !failed.contains(*key)).count();
        let created = edits.places.keys().filter(|key| !sides.declared.contains_key(*key)).count();
        outcome.resources = (declared + created).saturating_sub(edits.removed.len());
        outcome.problems.sort_by(|a, b| (&a.file, &a.resource).cmp(&(&b.file, &b.resource)));
    }

    /// Lets a resource say how it stands. What it says changes nothing else, so nothing depends on it.
    async fn note(&self, sides: &Sides, key: &Key, standing: Option<Standing>) {
        let document = sides.source.documents.get(key).map(|it| &it.object);
        let object = sides.found.get(key).map(|it| &it.object).or(document);
        let (Some(standing), Some(object)) = (standing, object) else { return };
        if let Err(error) = self.system.note(object, &standing).await {
            let (kind, name) = (object.kind().kind(), object.name());
            tracing::warn!(kind, name, %error, "cannot say in its status how it stands to git");
        }
    }

    async fn step(
        &self,
        sides: &Sides,
        edits: &Edits,
        key: &Key,
        step: &Step,
    ) -> Result<(), Error> {
        let (document, found) = (sides.source.documents.get(key), sides.found.get(key));
        match (step, document, found) {
            (Step::Apply, Some(document), found) => {
                let applied = self.system.apply(document, found).await;
                applied.map_err(|error| located(document, error))
            }
            (Step::Delete, _, Some(found)) => self.system.delete(found).await,
            (Step::Write(_), _, Some(found)) => match edits.places.get(key) {
                Some(file) => self.system.mark(found, file).await,
                // It is among the problems already.
                None => Ok(()),
            },
            (Step::Refuse(other), _, _) => {
                let text =
                    format!("the sync {other:?} keeps this resource; take it out of one of them");
                Err(Error::BadRequest(text))
            }
            (Step::Apply | Step::Delete | Step::Write(_) | Step::Remove(_), _, _) => Ok(()),
        }
    }
}

/// What is wrong with fields says where they are.
fn located(document: &Document, error: Error) -> Error {
    match error {
        Error::Invalid { violations, .. } => {
            let texts = violations.iter().map(|violation| document.manifest.describe(violation));
            Error::BadRequest(texts.collect::<Vec<_>>().join("; "))
        }
        other => other,
    }
}

fn problem(key: &Key, kind: &str, file: &str, error: &Error) -> Problem {
    let resource = format!("{kind} {}", key.name);
    Problem { file: file.to_owned(), resource, message: error.to_string() }
}

/// The kinds that a sync writes back, by the full names of their messages; and the words that name none.
pub fn written_kinds(
    scheme: &orrery_api::Scheme,
    spec: &GitSyncSpec,
    project: &str,
) -> (BTreeSet<String>, Vec<String>) {
    let Some(back) = &spec.write_back else { return <_>::default() };
    let (mut kinds, mut unknown) = (BTreeSet::new(), Vec::new());
    let fits = |kind: &orrery_api::Kind| {
        let secret = kind.has_secrets() && !back.include_secrets();
        let elsewhere = kind.cluster_scoped() && project != crate::source::SYSTEM;
        !secret && !elsewhere && !kind.server_owned() && !kind.internal()
    };
    if back.kinds.is_empty() {
        let all = scheme.kinds().filter(|kind| kind.written_back_at_once());
        kinds.extend(all.filter(|kind| fits(kind)).map(|kind| kind.full_name().to_owned()));
    }
    for word in &back.kinds {
        match scheme.resolve("", word) {
            Ok(kind) => {
                let kind = scheme.hub_kind(&kind);
                match fits(&kind) {
                    true => drop(kinds.insert(kind.full_name().to_owned())),
                    false => unknown.push(format!("{word} (it is not written back)")),
                }
            }
            Err(error) => unknown.push(error.to_string()),
        }
    }
    (kinds, unknown)
}

/// Where the name of a sync, its repository and its branch are one folder of their own.
pub fn copy_name(name: &ObjectName, spec: &GitSyncSpec) -> String {
    let place = serde_json::json!([spec.repository(), spec.branch()]);
    let digest = content::digest(&place, &content::Files::new());
    format!("{}.{}.{}", name.project, name.name, &digest[..12])
}

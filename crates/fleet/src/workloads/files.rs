//! Where the files of workloads come from: their secrets and uploaded artifacts.
use orrery_api::{Kind, Shared};
use orrery_hub::artifacts::{Artifact, Artifacts};
use orrery_hub::{Error, ObjectName, Resources};
use orrery_proto::apps::v1::{File, Workload, file::Source};
use orrery_proto::core::v1::Secret;
use orrery_runtime::{Change, View};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What is uploaded of the artifacts that some files come from, by path.
pub type Uploaded = BTreeMap<String, Artifact>;

/// The secrets that a workload may read, by the names that it has for them.
pub type Readable = BTreeMap<ObjectName, Arc<Secret>>;

/// The secrets that some files come from.
pub fn secrets(project: &str, files: &[File]) -> BTreeSet<ObjectName> {
    let names = files.iter().filter_map(|file| match &file.source {
        Some(Source::Secret(secret)) => Some(ObjectName::new(project, secret.name())),
        Some(Source::Artifact(_) | Source::Text(_)) | None => None,
    });
    names.collect()
}

/// The artifacts that some files come from.
fn artifacts(files: &[File]) -> BTreeSet<&str> {
    let paths = files.iter().filter_map(|file| match &file.source {
        Some(Source::Artifact(artifact)) => Some(artifact.path()),
        Some(Source::Secret(_) | Source::Text(_)) | None => None,
    });
    paths.collect()
}

/// Looks what is there of them. A workload without such files costs nothing, and one that has gone
/// meanwhile has none.
pub async fn uploaded(
    store: &Artifacts,
    kind: &Kind,
    workload: &ObjectName,
    files: &[File],
) -> Result<Uploaded, Error> {
    let named = artifacts(files);
    if named.is_empty() {
        return Ok(Uploaded::new());
    }
    let all = match store.list(kind, workload).await {
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Vec::new(),
        all => all?,
    };
    let named = all.into_iter().filter(|artifact| named.contains(artifact.path.as_str()));
    Ok(named.map(|artifact| (artifact.path.to_string(), artifact)).collect())
}

/// The secrets that some files come from, as far as they are there: those of the project, and those that others share
/// with it. With whom a secret is shared is asked of the hub, which knows it by the ids of projects: the name that a
/// view remembers may be another project's by now.
pub async fn readable(
    view: &View<Secret>,
    hub: &Resources<Secret>,
    project: &str,
    files: &[File],
) -> Result<Readable, Error> {
    let mut found = Readable::new();
    for name in secrets(project, files) {
        let secret = match view.get(&name) {
            Some(own) => Some(own),
            None => hub.find_readable(&name).await?.map(Arc::new),
        };
        found.extend(secret.map(|secret| (name, secret)));
    }
    Ok(found)
}

/// Changes whenever one of the secrets or artifacts does. It is made of the identities and generations
/// of secrets, so it tells nothing about what is in them.
pub fn revision(
    project: &str,
    files: &[File],
    secret: impl Fn(&ObjectName) -> Option<Arc<Secret>>,
    uploaded: &Uploaded,
) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let mut digest = Sha256::new();
    let mut take = |part: &[u8]| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    };
    for name in secrets(project, files) {
        let metadata = secret(&name).and_then(|secret| secret.metadata.clone());
        let (uid, generation) =
            metadata.map_or_else(|| ("absent".to_owned(), 0), |meta| (meta.uid, meta.generation));
        take(name.name.as_bytes());
        take(uid.as_bytes());
        take(&generation.to_le_bytes());
    }
    for path in artifacts(files) {
        let content = uploaded.get(path).map_or("absent", |artifact| &artifact.digest);
        take(path.as_bytes());
        take(content.as_bytes());
    }
    let digest = digest.finalize();
    Some(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a change of a secret may concern other projects.
pub fn is_or_was_shared(change: &Change<Secret>) -> bool {
    let shared = |secret: &Arc<Secret>| {
        let sharing = secret.spec.as_ref().and_then(|spec| spec.sharing.as_ref());
        Shared::of(sharing) != Shared::WithNobody
    };
    change.old.iter().chain(&change.new).any(shared)
}

/// Who names which secret, and who has files that were uploaded; fed by the watch over workloads.
#[derive(Debug, Default)]
pub struct FileUsers {
    by_secret: Mutex<HashMap<ObjectName, BTreeSet<ObjectName>>>,
    /// By the identity of the workload.
    uploading: Mutex<HashMap<String, ObjectName>>,
}

impl FileUsers {
    /// Takes in what became of a workload.
    pub fn take(&self, change: &Change<Workload>) {
        self.take_uploading(change);
        let named = |workload: Option<&Workload>| {
            let files =
                workload.and_then(|workload| workload.spec.as_ref()).map(|spec| &spec.files);
            files.map(|files| secrets(&change.name.project, files)).unwrap_or_default()
        };
        let (old, new) = (named(change.old.as_deref()), named(change.new.as_deref()));
        if old == new {
            return;
        }
        let mut by_secret = self.by_secret.lock();
        for gone in old.difference(&new) {
            if let Some(users) = by_secret.get_mut(gone) {
                users.remove(&change.name);
                if users.is_empty() {
                    by_secret.remove(gone);
                }
            }
        }
        for named in new {
            by_secret.entry(named).or_default().insert(change.name.clone());
        }
    }

    fn take_uploading(&self, change: &Change<Workload>) {
        let identity = |workload: Option<&Workload>| {
            let files = &workload?.spec.as_ref()?.files;
            let uid = &workload?.metadata.as_ref()?.uid;
            (!artifacts(files).is_empty()).then(|| uid.clone())
        };
        let (old, new) = (identity(change.old.as_deref()), identity(change.new.as_deref()));
        if old == new {
            return;
        }
        let mut uploading = self.uploading.lock();
        old.map(|uid| uploading.remove(&uid));
        new.map(|uid| uploading.insert(uid, change.name.clone()));
    }

    /// The workload of this identity, if it has files that were uploaded.
    pub fn uploading(&self, uid: &str) -> Option<ObjectName> {
        self.uploading.lock().get(uid).cloned()
    }

    /// All workloads that have such files.
    pub fn all_uploading(&self) -> Vec<ObjectName> {
        self.uploading.lock().values().cloned().collect()
    }

    /// The workloads that may mean a secret: those of its project that name it, and those of others where it is or
    /// was shared.
    pub fn concerned(&self, change: &Change<Secret>) -> BTreeSet<ObjectName> {
        if !is_or_was_shared(change) {
            return self.of(&change.name);
        }
        let by_secret = self.by_secret.lock();
        let named = by_secret.iter().filter(|(secret, _)| secret.name == change.name.name);
        named.flat_map(|(_, users)| users.iter().cloned()).collect()
    }

    /// The workloads that name a secret.
    pub fn of(&self, secret: &ObjectName) -> BTreeSet<ObjectName> {
        self.by_secret.lock().get(secret).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_hub::artifacts::ArtifactPath;
    use orrery_proto::apps::v1::{ArtifactFile, SecretValue, WorkloadSpec};
    use orrery_proto::meta::v1::ObjectMeta;

    fn file(secret: &str) -> File {
        let value = SecretValue { name: Some(secret.into()), key: Some("key".into()) };
        File { path: Some("p".into()), source: Some(Source::Secret(value)), mode: None }
    }

    fn secret(generation: i64) -> Option<Arc<Secret>> {
        let metadata = ObjectMeta { uid: "u".into(), generation, ..ObjectMeta::default() };
        Some(Arc::new(Secret { metadata: Some(metadata), ..Secret::default() }))
    }

    #[test]
    fn a_revision_follows_the_secrets() {
        let text = File { source: Some(Source::Text("x".into())), ..File::default() };
        let revision = |files: &[File], generation: Option<i64>| {
            super::revision("p", files, |_| generation.and_then(secret), &Uploaded::new())
        };
        assert_eq!(revision(&[], None), None);
        let plain = revision(std::slice::from_ref(&text), None);
        let files = [text, file("db")];
        let absent = revision(&files, None);
        let (one, two) = (revision(&files, Some(1)), revision(&files, Some(2)));
        assert!(plain.is_some() && absent != plain && one != absent && one != two);
        assert_eq!(one, revision(&files, Some(1)));
    }

    fn artifact(path: &str) -> File {
        let source = ArtifactFile { path: Some(path.into()) };
        File { path: Some("p".into()), source: Some(Source::Artifact(source)), mode: None }
    }

    #[test]
    fn a_revision_follows_the_artifacts_that_are_named() {
        let files = [artifact("a.toml"), artifact("b.toml")];
        let revision = |uploaded: &[(&str, &str)]| {
            let uploaded = uploaded.iter().map(|(path, digest)| {
                let (size_bytes, digest) = (1, (*digest).to_owned());
                let path: ArtifactPath = path.parse().unwrap();
                (path.to_string(), Artifact { path, size_bytes, digest })
            });
            super::revision("p", &files, |_| None, &uploaded.collect()).unwrap()
        };
        let none = revision(&[]);
        let (first, second) = (revision(&[("a.toml", "1")]), revision(&[("b.toml", "1")]));
        assert!(none != first && first != second);
        assert_ne!(first, revision(&[("a.toml", "2")]));
        assert_eq!(first, revision(&[("a.toml", "1"), ("other", "1")]));
    }

    #[test]
    fn who_has_uploaded_files_is_known_by_identity() {
        let users = FileUsers::default();
        let workload = |uid: &str, files: Vec<File>| {
            let metadata = ObjectMeta { uid: uid.into(), ..ObjectMeta::default() };
            let spec = WorkloadSpec { files, ..WorkloadSpec::default() };
            let (metadata, spec) = (Some(metadata), Some(spec));
            Some(Arc::new(Workload { metadata, spec, ..Workload::default() }))
        };
        let name = ObjectName::new("p", "web");
        let change = |old, new| Change { name: name.clone(), old, new };
        users.take(&change(None, workload("u1", vec![artifact("a")])));
        assert_eq!(users.uploading("u1"), Some(name.clone()));
        users.take(&change(
            workload("u1", vec![artifact("a")]),
            workload("u2", vec![artifact("a")]),
        ));
        assert_eq!((users.uploading("u1"), users.all_uploading().len()), (None, 1));
        users.take(&change(workload("u2", vec![artifact("a")]), workload("u2", vec![])));
        assert!(users.all_uploading().is_empty());
    }

    #[test]
    fn users_of_a_secret_come_and_go() {
        let users = FileUsers::default();
        let name = |name: &str| ObjectName::new("p", name);
        let workload = |secrets: &[&str]| {
            let files = secrets.iter().map(|secret| file(secret)).collect();
            let spec = WorkloadSpec { files, ..WorkloadSpec::default() };
            Some(Arc::new(Workload { spec: Some(spec), ..Workload::default() }))
        };
        users.take(&Change { name: name("web"), old: None, new: workload(&["db", "tls"]) });
        assert_eq!(users.of(&name("db")), [name("web")].into());
        users.take(&Change {
            name: name("web"),
            old: workload(&["db", "tls"]),
            new: workload(&["tls"]),
        });
        assert!(users.of(&name("db")).is_empty());
        users.take(&Change { name: name("web"), old: workload(&["tls"]), new: None });
        assert!(users.by_secret.lock().is_empty());
    }
}

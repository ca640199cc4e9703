//! Which secrets the files of workloads come from: pure.
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{File, Workload, file::Source};
use orrery_proto::core::v1::Secret;
use orrery_runtime::Change;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};

/// The secrets that some files come from.
pub fn secrets(project: &str, files: &[File]) -> BTreeSet<ObjectName> {
    let names = files.iter().filter_map(|file| match &file.source {
        Some(Source::Secret(secret)) => Some(ObjectName::new(project, secret.name())),
        Some(Source::Artifact(_) | Source::Text(_)) | None => None,
    });
    names.collect()
}

/// Changes whenever one of the secrets does. It is made of their identities and generations, so it
/// tells nothing about what is in them.
pub fn revision(
    project: &str,
    files: &[File],
    secret: impl Fn(&ObjectName) -> Option<std::sync::Arc<Secret>>,
) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let mut digest = Sha256::new();
    for name in secrets(project, files) {
        let metadata = secret(&name).and_then(|secret| secret.metadata.clone());
        let (uid, generation) =
            metadata.map_or_else(|| ("absent".to_owned(), 0), |meta| (meta.uid, meta.generation));
        for part in [name.name.as_bytes(), uid.as_bytes(), &generation.to_le_bytes()] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    let digest = digest.finalize();
    Some(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Who names which secret; fed by the watch over workloads.
#[derive(Debug, Default)]
pub struct SecretUsers {
    by_secret: Mutex<HashMap<ObjectName, BTreeSet<ObjectName>>>,
}

impl SecretUsers {
    /// Takes in what became of a workload.
    pub fn take(&self, change: &Change<Workload>) {
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

    /// The workloads that name a secret.
    pub fn of(&self, secret: &ObjectName) -> BTreeSet<ObjectName> {
        self.by_secret.lock().get(secret).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{SecretValue, WorkloadSpec};
    use orrery_proto::meta::v1::ObjectMeta;
    use std::sync::Arc;

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
        assert_eq!(revision("p", &[], |_| None), None);
        let plain = revision("p", std::slice::from_ref(&text), |_| None);
        let files = [text, file("db")];
        let absent = revision("p", &files, |_| None);
        let (one, two) =
            (revision("p", &files, |_| secret(1)), revision("p", &files, |_| secret(2)));
        assert!(plain.is_some() && absent != plain && one != absent && one != two);
        assert_eq!(one, revision("p", &files, |_| secret(1)));
    }

    #[test]
    fn users_of_a_secret_come_and_go() {
        let users = SecretUsers::default();
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

//! The objects of a project, as a sync sees and changes them.
use crate::content::{self, Files};
use crate::lineage::{Lineage, Origin};
use crate::plan::{Key, Present};
use crate::rights::Rights;
use crate::source::{Document, SYSTEM};
use bytes::Bytes;
use orrery_api::{Kind, LINEAGE, Object, named_artifacts};
use orrery_hub::artifacts::{ArtifactPath, Artifacts};
use orrery_hub::patch::{Patch, PatchOptions, patch};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Error, GetOptions, Hub, ListOptions, Merge,
    ObjectName, Precondition,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often an object is written again because its status changed at the same moment.
const ATTEMPTS_MAX: usize = 8;
/// Objects of one list at a time.
const PAGE: usize = 500;

/// One object that concerns a sync.
#[derive(Clone, Debug)]
pub struct Found {
    pub object: Object,
    pub value: Value,
    pub files: Files,
}

/// A project, with the rights of one sync.
pub struct System {
    pub hub: Hub,
    pub origin: Origin,
    pub project: String,
    pub rights: Arc<dyn Rights>,
    /// Names of the other syncs of the project.
    pub others: BTreeSet<String>,
    /// Kinds of which git and the system hold the same, by the full names of their messages.
    pub written: BTreeSet<String>,
}

impl System {
    /// Every object that git declares, that came from this sync, or whose kind is written back.
    pub async fn observe(
        &self,
        declared: &BTreeMap<Key, Document>,
    ) -> Result<BTreeMap<Key, Found>, Error> {
        let mut found = BTreeMap::new();
        for accessor in self.hub.accessors() {
            let kind = accessor.kind();
            let elsewhere = kind.cluster_scoped() && self.project != SYSTEM;
            if kind.server_owned() || kind.internal() || elsewhere {
                continue;
            }
            self.observe_kind(&**accessor, declared, &mut found).await?;
        }
        Ok(found)
    }

    async fn observe_kind(
        &self,
        accessor: &dyn Accessor,
        declared: &BTreeMap<Key, Document>,
        found: &mut BTreeMap<Key, Found>,
    ) -> Result<(), Error> {
        let kind = accessor.kind().full_name().to_owned();
        let project = (!accessor.kind().cluster_scoped()).then(|| self.project.clone());
        let mut continue_from = None;
        loop {
            let options = ListOptions {
                project: project.clone(),
                limit: PAGE,
                continue_from,
                include_lineage: true,
                ..ListOptions::default()
            };
            let page = accessor.list_encoded(options).await?;
            for item in page.items {
                let name = item.name().map_err(unreadable)?.to_owned();
                let key = Key { kind: kind.clone(), name };
                let concerns = self.written.contains(&kind) || declared.contains_key(&key);
                if concerns || item.has_lineage() {
                    let object = item.into_object().map_err(unreadable)?;
                    found.insert(key, self.found(object).await?);
                }
            }
            continue_from = page.continue_from;
            if continue_from.is_none() {
                return Ok(());
            }
        }
    }

    async fn found(&self, object: Object) -> Result<Found, Error> {
        let value = content::canonical(&object);
        let named = named_artifacts(object.kind(), &value);
        let mut files = Files::new();
        if !named.is_empty() {
            let artifacts = Artifacts::new(self.hub.clone());
            let all = artifacts.list(object.kind(), &ObjectName::of(&object)).await?;
            let all = all.into_iter().filter(|it| named.contains(it.path.as_str()));
            files = all.map(|it| (it.path.as_str().to_owned(), it.digest)).collect();
        }
        Ok(Found { object, value, files })
    }

    /// As the plan sees it.
    pub fn present(&self, found: &Found) -> Present {
        let lineage = found.object.lineage().and_then(Lineage::read);
        let sync = lineage.as_ref().map(|known| known.origin.sync.clone());
        Present {
            digest: content::digest(&found.value, &found.files),
            lineage,
            going: found.object.deletion_timestamp().is_some(),
            owned: found.object.has_owners(),
            kept_by: sync.filter(|sync| self.others.contains(sync)),
        }
    }

    fn accessor(&self, kind: &Kind) -> Result<&Arc<dyn Accessor>, Error> {
        self.hub.accessor(kind)
    }

    /// Makes an object what git says. A status that changes meanwhile does not matter.
    pub async fn apply(&self, document: &Document, there: Option<&Found>) -> Result<(), Error> {
        let (kind, name) = (document.object.kind(), ObjectName::of(&document.object));
        let verb = if there.is_some() { "patch" } else { "create" };
        self.rights.check(verb, kind, "", &name)?;
        let mut current = there.cloned();
        for _ in 1..ATTEMPTS_MAX {
            match self.try_apply(document, current.as_ref()).await {
                Err(Error::Conflict { .. }) if self.is_as_seen(there, &mut current).await? => {}
                outcome => {
                    outcome?;
                    return self.upload(document, there, &name).await;
                }
            }
        }
        self.try_apply(document, current.as_ref()).await?;
        self.upload(document, there, &name).await
    }

    /// Looks again at an object that was written by somebody else: whether it says what it said.
    async fn is_as_seen(
        &self,
        seen: Option<&Found>,
        current: &mut Option<Found>,
    ) -> Result<bool, Error> {
        let Some(seen) = seen else { return Ok(false) };
        let name = ObjectName::of(&seen.object);
        let options = GetOptions { name, include_lineage: true, ..GetOptions::default() };
        let object = self.accessor(seen.object.kind())?.get(options).await?;
        let value = content::canonical(&object);
        let same = value == seen.value;
        *current = Some(Found { object, value, files: seen.files.clone() });
        Ok(same)
    }

    async fn try_apply(&self, document: &Document, there: Option<&Found>) -> Result<(), Error> {
        let kind = document.object.kind();
        let options = self.options(kind, there)?;
        let trial = ApplyOptions { dry_run: true, ..options.clone() };
        let accessor = self.accessor(kind)?;
        let Applied { object: next, .. } = accessor.apply(document.object.clone(), trial).await?;
        let files = document.file_digests();
        let lineage = Lineage {
            origin: self.origin.clone(),
            file: document.file.clone(),
            git: document.digest(),
            system: content::digest(&content::canonical(&next), &files),
        };
        let mut object = document.object.clone();
        object.set_lineage(Some(&lineage.write()));
        accessor.apply(object, options).await.map(|_| ())
    }

    /// Where git and the system hold the same, git says all of an object; elsewhere it says its own fields.
    fn options(&self, kind: &Kind, there: Option<&Found>) -> Result<ApplyOptions, Error> {
        let whole = self.written.contains(kind.full_name());
        let precondition = match there {
            None => Precondition::Absent,
            Some(_) if !whole => Precondition::Present,
            Some(found) => at(&found.object)?,
        };
        Ok(ApplyOptions {
            precondition,
            merge: if whole { Merge::Declared } else { Merge::Apply },
            manager: format!("gitsync:{}", self.origin.sync),
            force: true,
            include_lineage: true,
            admit: self.rights.admit(kind),
            ..ApplyOptions::default()
        })
    }

    async fn upload(
        &self,
        document: &Document,
        there: Option<&Found>,
        name: &ObjectName,
    ) -> Result<(), Error> {
        let artifacts = Artifacts::new(self.hub.clone());
        for (path, beside) in &document.files {
            let digest = content::file_digest(&beside.content);
            if there.is_some_and(|found| found.files.get(path) == Some(&digest)) {
                continue;
            }
            let kind = document.object.kind();
            self.rights.check("update", kind, "artifacts", name)?;
            let path = path_of(path)?;
            artifacts.set(kind, name, &path, beside.content.clone()).await?;
        }
        Ok(())
    }

    /// Writes down where an object is in git now, and what it was like when it was written there; whatever it
    /// has become since is seen by the next look.
    pub async fn mark(&self, found: &Found, file: &str) -> Result<(), Error> {
        let digest = content::digest(&found.value, &found.files);
        let lineage = Lineage {
            origin: self.origin.clone(),
            file: file.to_owned(),
            git: digest.clone(),
            system: digest,
        };
        let (kind, name) = (found.object.kind(), ObjectName::of(&found.object));
        let annotation = json!({ LINEAGE: lineage.write() });
        let metadata = json!({ "uid": found.object.uid(), "annotations": annotation });
        let change = Patch::merge(json!({ "metadata": metadata }))?;
        let options = PatchOptions { include_lineage: true, ..PatchOptions::default() };
        match patch(&**self.accessor(kind)?, &name, &change, &options).await {
            // It is gone, or another one by now.
            Ok(_) | Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object that left git; gone already is as good.
    pub async fn delete(&self, found: &Found) -> Result<(), Error> {
        let (kind, name) = (found.object.kind(), ObjectName::of(&found.object));
        self.rights.check("delete", kind, "", &name)?;
        let uid = Some(found.object.uid().to_owned());
        let options = DeleteOptions { name, uid, ..DeleteOptions::default() };
        match self.accessor(kind)?.delete(options).await {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The files of an object, to be written beside it.
    pub async fn download(&self, found: &Found) -> Result<BTreeMap<String, Bytes>, Error> {
        let (kind, name) = (found.object.kind(), ObjectName::of(&found.object));
        let artifacts = Artifacts::new(self.hub.clone());
        let mut files = BTreeMap::new();
        for path in found.files.keys() {
            let (_, content) = artifacts.get(kind, &name, &path_of(path)?).await?;
            files.insert(path.clone(), content);
        }
        Ok(files)
    }

    /// Whether an object may be written where everybody who can read the repository sees it.
    pub fn may_write(&self, found: &Found) -> Result<(), Error> {
        self.rights.check("get", found.object.kind(), "", &ObjectName::of(&found.object))
    }
}

fn at(object: &Object) -> Result<Precondition, Error> {
    let version = object.resource_version();
    let revision = version.parse().map_err(|_| Error::Internal("it has no revision".to_owned()))?;
    Ok(Precondition::At(revision))
}

fn path_of(path: &str) -> Result<ArtifactPath, Error> {
    path.parse()
        .map_err(|error: orrery_hub::artifacts::PathError| Error::BadRequest(error.to_string()))
}

fn unreadable(error: orrery_api::ObjectError) -> Error {
    Error::Internal(error.to_string())
}

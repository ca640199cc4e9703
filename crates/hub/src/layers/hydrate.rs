//! Project names outside, project ids inside.
use crate::accessor::{Accessor, WatchStream};
use crate::error::Error;
use crate::layers::project_end::{Gone, until_gone};
use crate::options::{
    Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, ObjectName, Page,
    Precondition, StatusOptions, Version, WatchOptions,
};
use crate::paging;
use crate::projects::{Endings, Projects};
use async_trait::async_trait;
use futures::StreamExt;
use orrery_api::{
    EVERY_PROJECT, Encoded, FieldSelector, Kind, Object, ObjectError, SYSTEM_PROJECT, Sharing,
    Violation,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a selector names a project.
const PROJECT_FIELD: &str = "metadata.project";

/// Turns the hub view into the stored view and back, for metadata and for the projects that an object is shared
/// with. Nothing new is created in a
/// project that is not there or is being deleted, and the store itself holds that at the moment of
/// writing.
pub struct Hydrate {
    inner: Arc<dyn Accessor>,
    projects: Arc<Projects>,
}

impl Hydrate {
    pub fn new(inner: Arc<dyn Accessor>, projects: Arc<Projects>) -> Self {
        Self { inner, projects }
    }

    fn cluster_scoped(&self) -> bool {
        self.inner.kind().cluster_scoped()
    }

    async fn id_of(&self, project: &str) -> Result<String, Error> {
        if self.cluster_scoped() {
            return Ok(SYSTEM_PROJECT.to_owned());
        }
        Ok(self.projects.by_name(project).await?.id.to_string())
    }

    async fn hydrate_name(&self, name: ObjectName) -> Result<ObjectName, Error> {
        Ok(ObjectName { project: self.id_of(&name.project).await?, name: name.name })
    }

    /// What a selector says of the project, in the words of the stored view.
    async fn hydrate_fields(&self, fields: &mut FieldSelector) -> Result<(), Error> {
        let mut ids = HashMap::new();
        for name in fields.values(PROJECT_FIELD) {
            let id = match (self.cluster_scoped(), name.as_str()) {
                (true, "") => SYSTEM_PROJECT.to_owned(),
                (true, _) | (false, "") => nobody(&name),
                (false, name) => match self.projects.by_name(name).await {
                    Ok(project) => project.id.to_string(),
                    Err(Error::ProjectNotFound { .. }) => nobody(name),
                    Err(error) => return Err(error),
                },
            };
            ids.insert(name, id);
        }
        fields.map_values(PROJECT_FIELD, |name| ids.get(name).cloned().unwrap_or_default());
        Ok(())
    }

    /// What is watched, in the words of the stored view, and when the project that it is in is gone. What was in that
    /// before it was deleted is not told to who goes on from there: they begin anew, also where it is there again.
    async fn hydrate_watch(&self, options: &mut WatchOptions) -> Result<Option<Gone>, Error> {
        let within = options.project.as_deref().or_else(|| options.fields.exact(PROJECT_FIELD));
        let mut endings = match within.filter(|_| !self.cluster_scoped()) {
            Some(project) => Some(self.projects.endings(project, options.after).await?),
            None => None,
        };
        let id = match &options.project {
            Some(project) => Some(self.id_of(project).await),
            None => None,
        };
        // When the id has been looked up, the end of its predecessor is known here, too.
        if let (Some(endings), Some(_)) = (&mut endings, options.after) {
            endings.check()?;
        }
        options.project = id.transpose()?;
        self.hydrate_fields(&mut options.fields).await?;
        Ok(endings.map(Endings::next))
    }

    /// The id of the project that something is written in. Nothing new comes into one that is going.
    async fn entered(&self, asked: &str, options: &mut ApplyOptions) -> Result<Arc<str>, Error> {
        let project = self.projects.by_name(asked).await?;
        if options.precondition == Precondition::Absent {
            if project.terminating {
                return Err(Error::ProjectTerminating { project: asked.to_owned() });
            }
            options.guards.push(project.guard);
        }
        Ok(project.id)
    }

    fn dehydrate(&self, object: &mut Object) {
        dehydrate(&self.projects, object);
    }

    /// The projects that an object is shared with, by their ids.
    async fn hydrate_sharing(&self, object: &mut Object) -> Result<(), Error> {
        let Some(mut sharing) = object.sharing() else { return Ok(()) };
        for (index, shared) in sharing.projects.iter_mut().enumerate() {
            if shared.name() == EVERY_PROJECT {
                continue;
            }
            match self.projects.by_name(shared.name()).await {
                Ok(project) => shared.name = Some(project.id.to_string()),
                Err(Error::ProjectNotFound { project }) => {
                    let path = format!("spec.sharing.projects[{index}].name");
                    let why = "there is no project of this name; create it first";
                    let violations = vec![Violation::invalid(path, format!("{project:?}"), why)];
                    let (kind, name) = (self.kind().kind().to_owned(), object.name().to_owned());
                    return Err(Error::Invalid { kind, name, violations });
                }
                Err(error) => return Err(error),
            }
        }
        object.set_sharing(&sharing);
        Ok(())
    }

    /// The stored view of an object in the project of this id. Most objects are not decoded for it.
    async fn stored(&self, given: &Encoded, id: &str) -> Result<Encoded, Error> {
        let stored = given.stored_in(id).map_err(unreadable)?;
        if !stored.has_sharing() {
            return Ok(stored);
        }
        let mut object = stored.into_object().map_err(unreadable)?;
        self.hydrate_sharing(&mut object).await?;
        Ok(object.into())
    }

    /// The hub view of an object that is shown in a project of this name.
    fn shown_in(&self, found: &Encoded, project: &str) -> Result<Encoded, Error> {
        let shown = found.in_project(project).map_err(unreadable)?;
        named_within(&self.projects, shown).map_err(unreadable)
    }

    /// An error speaks of the project by the name that the caller used.
    fn named(&self, error: Error, asked: &str) -> Error {
        let asked = if self.cluster_scoped() { String::new() } else { asked.to_owned() };
        match error {
            Error::NotFound { kind, name, .. } => Error::NotFound { kind, project: asked, name },
            Error::AlreadyExists { kind, name, .. } => {
                Error::AlreadyExists { kind, project: asked, name }
            }
            other => other,
        }
    }
}

/// Equal to no id, because no id has a space in it.
fn nobody(name: &str) -> String {
    format!("no project {name}")
}

fn dehydrate(projects: &Projects, object: &mut Object) {
    if object.kind().cluster_scoped() {
        object.set_project("");
    } else {
        let name = projects.name_of(object.project());
        object.set_project(&name);
    }
    if let Some(sharing) = object.sharing() {
        object.set_sharing(&named(projects, sharing));
    }
}

/// The projects that are still there, by their names. What is shared with nobody any more is not shared.
fn named(projects: &Projects, sharing: Sharing) -> Sharing {
    let mut named = sharing.clone();
    named.projects.retain_mut(|shared| {
        if shared.name() == EVERY_PROJECT {
            return true;
        }
        shared.name = projects.living(shared.name()).map(|name| name.to_string());
        shared.name.is_some()
    });
    if named.projects.is_empty() && !sharing.projects.is_empty() {
        named.enabled = Some(false);
    }
    named
}

/// The same for an object in bytes, which most have nothing to do for.
fn named_within(projects: &Projects, found: Encoded) -> Result<Encoded, ObjectError> {
    if !found.has_sharing() {
        return Ok(found);
    }
    found.with_sharing(|sharing| named(projects, sharing))
}

/// The hub view of a stored object.
fn dehydrated(projects: &Projects, found: &Encoded) -> Result<Encoded, ObjectError> {
    if found.kind().cluster_scoped() {
        return found.in_project("");
    }
    named_within(projects, found.in_project(&projects.name_of(found.project()?))?)
}

fn unreadable(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
}

#[async_trait]
impl Accessor for Hydrate {
    fn kind(&self) -> &Arc<Kind> {
        self.inner.kind()
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        let asked = options.name.project.clone();
        let name = self.hydrate_name(options.name).await?;
        let found = self.inner.get(GetOptions { name, ..options }).await;
        let mut object = found.map_err(|error| self.named(error, &asked))?;
        self.dehydrate(&mut object);
        Ok(object)
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let page = self.list_encoded(options).await?;
        page.try_map(Encoded::into_object).map_err(unreadable)
    }

    async fn apply(&self, mut object: Object, mut options: ApplyOptions) -> Result<Applied, Error> {
        let asked = object.project().to_owned();
        if self.cluster_scoped() {
            object.set_project(SYSTEM_PROJECT);
        } else {
            object.set_project(&self.entered(&asked, &mut options).await?);
        }
        self.hydrate_sharing(&mut object).await?;
        let applied = self.inner.apply(object, options).await;
        let mut applied = applied.map_err(|error| self.named(error, &asked))?;
        self.dehydrate(&mut applied.object);
        Ok(applied)
    }

    async fn delete(&self, mut options: DeleteOptions) -> Result<Deleted, Error> {
        let asked = options.name.project.clone();
        options.name = self.hydrate_name(options.name).await?;
        let deleted = self.inner.delete(options).await;
        let mut deleted = deleted.map_err(|error| self.named(error, &asked))?;
        self.dehydrate(&mut deleted.object);
        Ok(deleted)
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        let asked = options.name.project.clone();
        let name = self.hydrate_name(options.name).await?;
        let found = self.inner.status(StatusOptions { name, ..options }).await;
        let mut object = found.map_err(|error| self.named(error, &asked))?;
        self.dehydrate(&mut object);
        Ok(object)
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        Ok(events.map(|event| event?.try_map(Encoded::into_object).map_err(unreadable)).boxed())
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        let asked = options.name.project.clone();
        let name = self.hydrate_name(options.name).await?;
        let found = self.inner.get_encoded(GetOptions { name, ..options }).await;
        let found = found.map_err(|error| self.named(error, &asked))?;
        // The caller found the project by this name a moment ago.
        let shown = if self.cluster_scoped() { "" } else { asked.as_str() };
        self.shown_in(&found, shown)
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        mut options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        if options.dry_run || options.batch.is_some() {
            // What is not written is answered at the revision that it has.
            let object = given.into_object().map_err(unreadable)?;
            return self.apply(object, options).await.map(Applied::from);
        }
        let asked = given.project().map_err(unreadable)?;
        let (id, shown) = if self.cluster_scoped() {
            (Arc::from(SYSTEM_PROJECT), "")
        } else {
            (self.entered(asked, &mut options).await?, asked)
        };
        let stored = self.stored(&given, &id).await?;
        let applied = self.inner.apply_encoded(stored, options).await;
        let Applied { object, outcome } = applied.map_err(|error| self.named(error, asked))?;
        Ok(Applied { object: self.shown_in(&object, shown)?, outcome })
    }

    async fn list_encoded(&self, mut options: ListOptions) -> Result<Page<Encoded>, Error> {
        if let Some(project) = &options.project {
            options.project = Some(self.id_of(project).await?);
        }
        self.hydrate_fields(&mut options.fields).await?;
        let everywhere = options.project.is_none() && !self.cluster_scoped();
        let first = options.continue_from.is_none();
        let page = self.inner.list_encoded(options).await?;
        let mut page =
            page.try_map(|found| dehydrated(&self.projects, &found)).map_err(unreadable)?;
        // A list in parts comes in order.
        if everywhere && first && page.continue_from.is_none() {
            paging::by_project(&mut page.items);
        }
        Ok(page)
    }

    async fn watch_encoded(
        &self,
        mut options: WatchOptions,
    ) -> Result<WatchStream<Encoded>, Error> {
        let gone = self.hydrate_watch(&mut options).await?;
        let projects = self.projects.clone();
        let events = self.inner.watch_encoded(options).await?;
        let shown = move |found: Encoded| {
            found.view(|found| dehydrated(&projects, found)).map_err(unreadable)
        };
        let events = match gone {
            Some(gone) => until_gone(events, gone),
            None => events,
        };
        Ok(events.map(move |event| event?.try_map(&shown)).boxed())
    }

    async fn versions(&self, name: ObjectName) -> Result<Vec<Version>, Error> {
        let asked = name.project.clone();
        let name = self.hydrate_name(name).await?;
        self.inner.versions(name).await.map_err(|error| self.named(error, &asked))
    }
}

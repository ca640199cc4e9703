//! One request for resources, with everything that was learned from its head.
use super::accept::Form;
use super::failure::Failure;
use super::patching::absent_project;
use super::query::{MANAGER_MAX, Query, Version};
use super::render::Renderer;
use super::resource::Resource;
use super::selection::Selection;
use crate::identity::Guard;
use axum::http::{HeaderMap, StatusCode, header};
use orrery_hub::{Error, Hub, ListOptions, ObjectName, Revision};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub struct Call {
    pub hub: Hub,
    /// What the one who asks may do.
    pub guard: Guard,
    pub resource: Arc<Resource>,
    pub query: Query,
    pub form: Form,
    pub headers: HeaderMap,
    /// Cancelled when the server stops; streams end then.
    pub stop: CancellationToken,
}

impl Call {
    pub fn renderer(&self) -> Renderer {
        Renderer {
            resource: self.resource.clone(),
            form: self.form,
            include: self.query.include,
            guard: self.guard.clone(),
            clock: self.hub.clock().clone(),
        }
    }

    /// Refuses what the one who asks may not do.
    pub fn check(
        &self,
        verb: &str,
        subresource: &str,
        project: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let checked = self.guard.check_part(verb, &self.resource.kind, subresource, project, name);
        checked.map_err(|error| Failure::of(error, &self.resource, name))
    }

    /// The one name that is selected, if it is one: rules for single names count for it, as in the reference.
    pub fn selected_name(&self) -> String {
        let selection = Selection::of(&self.resource, &self.query, None).unwrap_or_default();
        selection.fields.exact("metadata.name").unwrap_or_default().to_owned()
    }

    /// What could not be written because it is not there may only be shared with the project.
    pub async fn explain_absence(&self, name: &ObjectName, failure: Failure) -> Failure {
        let accessor = &*self.resource.accessor;
        if failure.code != StatusCode::NOT_FOUND || !accessor.kind().shareable() {
            return failure;
        }
        let (kind, ObjectName { project, name: own }) =
            (self.resource.qualified_plural(), name.clone());
        let absent = Error::NotFound { kind, project, name: own };
        match self.guard.explain_absence(accessor, name, absent).await {
            Error::NotFound { .. } => failure,
            explained => Failure::of(explained, &self.resource, &name.name),
        }
    }

    /// Why something that belongs to an object could not be had: an artifact, or a version. One that is missing is
    /// named itself; everything else is about the object.
    pub fn failed_part(&self, part: &str, name: &ObjectName, error: Error) -> Failure {
        let resource = &self.resource;
        match error {
            Error::NotFound { kind, name: missing, .. }
                if kind.strip_prefix(part).is_some_and(|rest| rest.starts_with(" of ")) =>
            {
                let what = resource.qualified_plural();
                let message = format!("{what} {:?} has no {part} {missing:?}", name.name);
                let failure = Failure::new(StatusCode::NOT_FOUND, "NotFound", message);
                failure.about(resource.group(), resource.plural(), &name.name)
            }
            other => Failure::of(absent_project(other, resource, name), resource, &name.name),
        }
    }

    /// Who writes: what the request says, else the program that sent it.
    pub fn manager(&self) -> String {
        if let Some(manager) = &self.query.manager {
            return manager.clone();
        }
        let agent = self.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let program = agent.and_then(|agent| agent.split(['/', ' ']).next());
        let program = program.filter(|program| !program.is_empty()).unwrap_or("unknown");
        program.chars().take(MANAGER_MAX).collect()
    }

    /// Whether the objects are another service's, and their versions with them.
    pub fn is_elsewhere(&self) -> bool {
        self.hub.upstream_of(self.resource.accessor.kind()).is_some()
    }

    /// How far the store has come that keeps the objects.
    pub async fn current_revision(&self) -> Result<Revision, Failure> {
        if self.is_elsewhere() {
            let newest = ListOptions { limit: 1, ..ListOptions::default() };
            let page = self.resource.accessor.list_encoded(newest).await;
            let page = page.map_err(|error| Failure::of(error, &self.resource, ""))?;
            return Ok(page.revision);
        }
        let snapshot = self.hub.store().snapshot().await;
        let snapshot = snapshot.map_err(|error| {
            let error = orrery_hub::Error::Unavailable(error.to_string());
            Failure::of(error, &self.resource, "")
        })?;
        Ok(snapshot.revision())
    }

    /// A version that the store has not reached is refused: the client spoke to another server.
    pub async fn check_version(&self, wanted: Version) -> Result<(), Failure> {
        let Version::At(asked) = wanted else { return Ok(()) };
        if self.is_elsewhere() {
            // Only the upstream knows which it has reached.
            return Ok(());
        }
        let current = self.current_revision().await?;
        if current < asked {
            return Err(Failure::version_too_large(asked.0, current.0));
        }
        Ok(())
    }
}

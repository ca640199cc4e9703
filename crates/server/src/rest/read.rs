//! Reading: one object, or many.
use super::call::Call;
use super::failure::Failure;
use super::patching::absent_project;
use super::query::{Query, Version, VersionMatch};
use super::render::{self, ListHead};
use super::selection::Selection;
use axum::http::StatusCode;
use axum::response::Response;
use orrery_hub::{Error, ListOptions, ObjectName, Page, Part, Revision, StatusOptions};

pub async fn get(call: &Call, name: &ObjectName, part: Part) -> Result<Response, Failure> {
    let resource = &call.resource;
    let found = match part {
        Part::Main => resource.accessor.get(name.clone().into()).await,
        Part::Status => resource.accessor.status(StatusOptions { name: name.clone() }).await,
    };
    let object = found.map_err(|error| {
        Failure::of(absent_project(error, resource, name), resource, &name.name)
    })?;
    call.check_version(call.query.version).await?;
    let value = call.renderer().object(&object)?;
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

pub async fn list(call: &Call, project: Option<String>) -> Result<Response, Failure> {
    let selection = Selection::of(&call.resource, &call.query, project)?;
    call.check_version(call.query.version).await?;
    let page = page(call, selection, call.query.limit, call.query.continue_from.clone()).await?;
    check_exact(&call.query, page.revision)?;
    let head = ListHead { version: page.revision.to_string(), continue_from: page.continue_from };
    let value = call.renderer().list(&page.items, &head)?;
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

/// One page. A project that is not there holds nothing, which is no error in this dialect.
pub async fn page(
    call: &Call,
    mut selection: Selection,
    limit: usize,
    continue_from: Option<String>,
) -> Result<Page, Failure> {
    let options = ListOptions {
        project: selection.project.clone(),
        labels: std::mem::take(&mut selection.labels),
        fields: std::mem::take(&mut selection.fields),
        limit,
        continue_from,
    };
    match call.resource.accessor.list(options).await {
        Ok(mut page) => {
            page.items.retain(|item| selection.fits(item));
            Ok(page)
        }
        Err(Error::ProjectNotFound { .. }) => {
            let revision = call.current_revision().await?;
            Ok(Page { items: Vec::new(), revision, continue_from: None })
        }
        Err(error) => Err(Failure::of(error, &call.resource, "")),
    }
}

/// Only the present can be listed; a past that someone insists on is gone.
fn check_exact(query: &Query, found: Revision) -> Result<(), Failure> {
    match (query.version_match, query.version) {
        (Some(VersionMatch::Exact), Version::At(asked)) if asked != found => {
            let message = format!(
                "The resourceVersion {asked} for the provided list is too old; the server is at {found}"
            );
            Err(Failure::new(StatusCode::GONE, "Expired", message))
        }
        (
            Some(VersionMatch::Exact | VersionMatch::NotOlderThan) | None,
            Version::At(_) | Version::Any | Version::Unset,
        ) => Ok(()),
    }
}

//! Reading: one object, or many.
use super::call::Call;
use super::failure::Failure;
use super::patching::absent_project;
use super::query::{Query, Version, VersionMatch};
use super::render::{self, ListHead};
use super::selection::Selection;
use axum::http::StatusCode;
use axum::response::Response;
use orrery_api::Encoded;
use orrery_hub::{Error, GetOptions, ListOptions, ObjectName, Page, Part, Revision, StatusOptions};

pub async fn get(call: &Call, name: &ObjectName, part: Part) -> Result<Response, Failure> {
    let resource = &call.resource;
    let (asked, include_lineage) = (name.clone(), call.query.lineage);
    let found = match part {
        Part::Main | Part::Scale => {
            resource
                .accessor
                .get(GetOptions {
                    name: asked,
                    include_lineage,
                    include_shared: true,
                    version: None,
                })
                .await
        }
        Part::Status => {
            let options = StatusOptions { name: asked, include_lineage, include_shared: true };
            resource.accessor.status(options).await
        }
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
    let wanted = Wanted { shared: true, ..Wanted::of(&call.query) };
    let page = page(call, selection, wanted).await?;
    let head = ListHead {
        version: page.revision.to_string(),
        continue_from: page.continue_from,
        remaining: page.remaining,
    };
    let items = page.items.into_iter().map(|item| item.into_object().map_err(Failure::internal));
    call.renderer().list(items, &head)
}

/// Which part of a list, and of which time.
#[derive(Default)]
pub struct Wanted {
    /// 0 means all.
    pub limit: usize,
    pub continue_from: Option<String>,
    /// `None` is now.
    pub at: Option<Revision>,
    /// Also what others share with the project.
    pub shared: bool,
}

impl Wanted {
    /// As it is asked for, of the project's own objects.
    pub fn of(query: &Query) -> Self {
        let continue_from = query.continue_from.clone();
        Self { limit: query.limit, continue_from, at: exact(query), shared: false }
    }
}

/// One page. A project that is not there holds nothing, which is no error in this dialect.
pub async fn page(
    call: &Call,
    mut selection: Selection,
    wanted: Wanted,
) -> Result<Page<Encoded>, Failure> {
    let options = ListOptions {
        project: selection.project.clone(),
        labels: std::mem::take(&mut selection.labels),
        fields: std::mem::take(&mut selection.fields),
        limit: wanted.limit,
        continue_from: wanted.continue_from,
        at: wanted.at,
        include_lineage: call.query.lineage,
        include_shared: wanted.shared,
    };
    match call.resource.accessor.list_encoded(options).await {
        Ok(mut page) => {
            if !selection.fits_all() {
                page.items = fitting(page.items, &selection)?;
            }
            page.remaining = page.remaining.filter(|_| selection.fits_all());
            Ok(page)
        }
        Err(Error::ProjectNotFound { .. }) => {
            let revision = call.current_revision().await?;
            Ok(Page { items: Vec::new(), revision, continue_from: None, remaining: None })
        }
        Err(error) => Err(Failure::of(error, &call.resource, "")),
    }
}

/// What the accessor could not leave out.
fn fitting(items: Vec<Encoded>, selection: &Selection) -> Result<Vec<Encoded>, Failure> {
    let mut fitting = Vec::new();
    for item in items {
        if selection.fits_project(item.project().map_err(Failure::internal)?) {
            fitting.push(item);
        }
    }
    Ok(fitting)
}

/// The very state that is asked for. Parts of a list that begins at a version are parts of that
/// version, even if the client does not insist; without parts, newer is as good.
fn exact(query: &Query) -> Option<Revision> {
    match (query.version_match, query.version) {
        (Some(VersionMatch::Exact), Version::At(asked)) => Some(asked),
        (None, Version::At(asked)) if 0 < query.limit => Some(asked),
        (
            Some(VersionMatch::Exact | VersionMatch::NotOlderThan) | None,
            Version::At(_) | Version::Any | Version::Unset,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_exact_where_the_client_insists_or_pages() {
        let cases = [
            ("", None),
            ("resourceVersion=5", None),
            ("resourceVersion=5&limit=10", Some(Revision(5))),
            ("resourceVersion=0&limit=10", None),
            ("resourceVersion=5&resourceVersionMatch=Exact", Some(Revision(5))),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=10", None),
        ];
        for (raw, expect) in cases {
            assert_eq!(
                exact(&Query::parse(&axum::http::Method::GET, raw).expect(raw)),
                expect,
                "{raw}"
            );
        }
    }
}

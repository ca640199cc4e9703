//! Asking for one resource to go.
use crate::args::Cascade;
use crate::session::{Session, reason};
use crate::targets::Resource;
use orrery_proto::hub::v1::delete_request::Propagation;
use orrery_proto::hub::v1::{DeleteRequest, DeleteResponse, Encoding};

/// How a resource is deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deleting {
    /// Check everything, delete nothing.
    pub dry_run: bool,
    /// What becomes of the resources that belong to it.
    pub cascade: Option<Cascade>,
}

fn propagation(cascade: Option<Cascade>) -> Propagation {
    match cascade {
        None => Propagation::Unspecified,
        Some(Cascade::Background) => Propagation::Background,
        Some(Cascade::Foreground) => Propagation::Foreground,
        Some(Cascade::Orphan) => Propagation::Orphan,
    }
}

/// Asks. `uid` says which very object is meant, empty whichever has the name. `None` when there is
/// none.
pub async fn request(
    session: &Session,
    resource: &Resource,
    uid: &str,
    how: Deleting,
) -> anyhow::Result<Option<DeleteResponse>> {
    let request = DeleteRequest {
        name: Some(resource.name.clone()),
        uid: uid.to_owned(),
        dry_run: how.dry_run,
        propagation: propagation(how.cascade).into(),
        encoding: Encoding::Json.into(),
        ..DeleteRequest::default()
    };
    match session.server.delete(request).await.map_err(anyhow::Error::from) {
        Err(error) if reason(&error) == Some("NotFound") && !uid.is_empty() => Ok(None),
        response => response.map(Some),
    }
}

//! Asking for one resource to go.
use crate::session::{Session, reason};
use crate::targets::Resource;
use orrery_proto::hub::v1::{DeleteRequest, DeleteResponse, Encoding};

/// Asks. `uid` says which very object is meant, empty whichever has the name. `None` when there is
/// none.
pub async fn request(
    session: &Session,
    resource: &Resource,
    uid: &str,
    dry_run: bool,
) -> anyhow::Result<Option<DeleteResponse>> {
    let request = DeleteRequest {
        name: Some(resource.name.clone()),
        uid: uid.to_owned(),
        dry_run,
        encoding: Encoding::Json.into(),
        ..DeleteRequest::default()
    };
    match session.server.delete(request).await.map_err(anyhow::Error::from) {
        Err(error) if reason(&error) == Some("NotFound") && !uid.is_empty() => Ok(None),
        response => response.map(Some),
    }
}

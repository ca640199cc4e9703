//! The files of an object over HTTP: a list of them as JSON, each of them as plain bytes.
//!
//! ```text
//!   GET    .../NAME/artifacts         which there are: path, size, digest
//!   GET    .../NAME/artifacts/PATH    its content; the digest is its ETag
//!   PUT    .../NAME/artifacts/PATH    writes it, whole
//!   DELETE .../NAME/artifacts/PATH    takes it away
//! ```
use super::body;
use super::call::Call;
use super::failure::Failure;
use super::render;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use orrery_hub::ObjectName;
use orrery_hub::artifacts::{Artifact, ArtifactPath, Artifacts, FILE_BYTES_MAX};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that all uploads together may hold in memory: four files of the largest size.
const UPLOAD_MIB_MAX: u32 = 192;
const MIB: usize = 1 << 20;
const BUSY: &str = "other files are being uploaded, try again in a moment";
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The room that uploads share. Cheap to clone.
#[derive(Clone)]
pub struct Uploads(Arc<Semaphore>);

impl Default for Uploads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(UPLOAD_MIB_MAX as usize)))
    }
}

impl Uploads {
    /// Room for a body of the size that its head names, or of the largest one. What cannot be taken is
    /// refused before it is sent.
    fn reserve(&self, headers: &HeaderMap) -> Result<OwnedSemaphorePermit, Failure> {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let bytes = length.and_then(|text| text.parse().ok()).unwrap_or(FILE_BYTES_MAX);
        if FILE_BYTES_MAX < bytes {
            return Err(too_large());
        }
        let wanted = u32::try_from(bytes.div_ceil(MIB)).unwrap_or(u32::MAX);
        self.0
            .clone()
            .try_acquire_many_owned(wanted)
            .map_err(|_| Failure::too_many(BUSY, RETRY_AFTER))
    }
}

pub async fn list(call: &Call, name: &ObjectName) -> Result<Response, Failure> {
    let files = Artifacts::new(call.hub.clone());
    let found = files.list(call.resource.accessor.kind(), name).await;
    let found = found.map_err(|error| call.failed_part("artifact", name, error))?;
    let items: Vec<Value> = found.iter().map(described).collect();
    let value = json!({
        "apiVersion": call.resource.api_version(), "kind": "ArtifactList", "metadata": {},
        "items": items,
    });
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

pub async fn get(call: &Call, name: &ObjectName, path: &str) -> Result<Response, Failure> {
    let path = parse(path)?;
    let files = Artifacts::new(call.hub.clone());
    let found = files.get(call.resource.accessor.kind(), name, &path).await;
    let (artifact, content) = found.map_err(|error| call.failed_part("artifact", name, error))?;
    let tag = format!("\"{}\"", artifact.digest);
    let known = call.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let unchanged = known.is_some_and(|known| known.split(',').any(|each| each.trim() == tag));
    let mut response = match unchanged {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(content)),
    };
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    // Whatever it is, no browser should take it for a page of this server.
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    Ok(response)
}

pub async fn put(
    call: &Call,
    name: &ObjectName,
    path: &str,
    body: Body,
    uploads: &Uploads,
) -> Result<Response, Failure> {
    let path = parse(path)?;
    if call.query.dry_run {
        return Err(Failure::bad_request("files are written or not; dryRun is for objects"));
    }
    let _room = uploads.reserve(&call.headers)?;
    let owner = call.resource.accessor.get(name.clone().into()).await;
    owner.map_err(|error| call.failed_part("artifact", name, error))?;
    let content = body::read_at_most(body, FILE_BYTES_MAX).await.map_err(|failure| {
        if failure.code == StatusCode::PAYLOAD_TOO_LARGE { too_large() } else { failure }
    })?;
    let files = Artifacts::new(call.hub.clone());
    let written = files.set(call.resource.accessor.kind(), name, &path, content).await;
    let artifact = written.map_err(|error| call.failed_part("artifact", name, error))?;
    let mut value = described(&artifact);
    value["apiVersion"] = json!(call.resource.api_version());
    value["kind"] = json!("Artifact");
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

pub async fn delete(call: &Call, name: &ObjectName, path: &str) -> Result<Response, Failure> {
    let path = parse(path)?;
    if call.query.dry_run {
        return Err(Failure::bad_request("files are deleted or not; dryRun is for objects"));
    }
    let files = Artifacts::new(call.hub.clone());
    let removed = files.remove(call.resource.accessor.kind(), name, &path).await;
    removed.map_err(|error| call.failed_part("artifact", name, error))?;
    let value = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {
            "name": name.name, "group": call.resource.group(), "kind": call.resource.plural(),
        },
    });
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

fn too_large() -> Failure {
    Failure::too_large(format!("a file may have {} MiB at most", FILE_BYTES_MAX / MIB))
}

fn described(artifact: &Artifact) -> Value {
    json!({
        "path": artifact.path.as_str(), "sizeBytes": artifact.size_bytes,
        "digest": artifact.digest,
    })
}

fn parse(path: &str) -> Result<ArtifactPath, Failure> {
    path.parse()
        .map_err(|error: orrery_hub::artifacts::PathError| Failure::bad_request(error.to_string()))
}

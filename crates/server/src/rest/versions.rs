//! The versions of an object over HTTP.
//!
//! ```text
//!   GET .../NAME/versions            which there are: name, generation, until when
//!   GET .../NAME/versions/VERSION    what the object was under that name; it can be applied as it is
//! ```
use super::call::Call;
use super::failure::Failure;
use super::render;
use axum::http::StatusCode;
use axum::response::Response;
use orrery_hub::{GetOptions, ObjectName, Version};
use serde_json::{Value, json};

pub async fn list(call: &Call, name: &ObjectName) -> Result<Response, Failure> {
    let found = call.resource.accessor.versions(name.clone()).await;
    let found = found.map_err(|error| call.failed_part("version", name, error))?;
    let items: Vec<Value> = found.iter().map(described).collect();
    let value = json!({
        "apiVersion": call.resource.api_version(), "kind": "VersionList", "metadata": {},
        "items": items,
    });
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

pub async fn get(call: &Call, name: &ObjectName, version: String) -> Result<Response, Failure> {
    let include_lineage = call.query.lineage;
    let version = Some(version);
    let options = GetOptions { include_lineage, version, ..name.clone().into() };
    let found = call.resource.accessor.get(options).await;
    let object = found.map_err(|error| call.failed_part("version", name, error))?;
    let value = call.renderer().object(&object)?;
    Ok(render::answer(StatusCode::OK, call.form, &value, &[]))
}

fn described(version: &Version) -> Value {
    let Version { name, generation, until } = version;
    let mut value = json!({"name": name, "generation": generation, "current": until.is_none()});
    if let Some(until) = until {
        value["until"] = json!(until);
    }
    value
}

//! Plain HTTP: is it alive, is it ready, what is it.
use axum::routing::get;
use axum::{Json, Router, http::StatusCode};
use orrery_hub::Hub;
use serde_json::{Value, json};

/// The routes that need no resource.
pub fn router(hub: Hub) -> Router {
    let ready = move || {
        let hub = hub.clone();
        async move { readiness(&hub).await }
    };
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready.clone()))
        .route("/healthz", get(ready))
        .route("/version", get(|| async { Json(version()) }))
        .route("/version/", get(|| async { Json(version()) }))
}

/// Ready means that the store answers.
async fn readiness(hub: &Hub) -> (StatusCode, String) {
    match hub.store().snapshot().await {
        Ok(_) => (StatusCode::OK, "ok".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("the store: {error}")),
    }
}

/// In the shape that tools of the Kubernetes dialect read: all nine are strings, and the version is
/// one that kubectl can compare with its own.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "32",
        "gitVersion": format!("v1.32.0+orrery.{}", crate::VERSION),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

//! Plain HTTP: is it alive, is it ready, what is it.
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use axum::{Json, Router};
use orrery_hub::Hub;
use serde_json::{Value, json};

/// The routes that need no resource.
pub fn router(hub: Hub) -> Router {
    let ready = move |uri: Uri| {
        let hub = hub.clone();
        async move { told(&uri, &[("ping", Ok(())), ("store", store(&hub).await)]) }
    };
    Router::new()
        .route("/livez", get(|uri: Uri| async move { told(&uri, &[("ping", Ok(()))]) }))
        .route("/readyz", get(ready.clone()))
        .route("/healthz", get(ready))
        .route("/version", get(|| async { Json(version()) }))
        .route("/version/", get(|| async { Json(version()) }))
}

/// Ready means that the store answers.
async fn store(hub: &Hub) -> Result<(), String> {
    hub.store().snapshot().await.map(|_| ()).map_err(|error| error.to_string())
}

/// What checks came to: one word when all is well, and every check for whoever asks with `?verbose`
/// or when something is wrong.
fn told(uri: &Uri, checks: &[(&str, Result<(), String>)]) -> (StatusCode, String) {
    let well = checks.iter().all(|(_, outcome)| outcome.is_ok());
    let query = uri.query().unwrap_or_default();
    let verbose = form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "verbose");
    if well && !verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let line = |(name, outcome): &(&str, Result<(), String>)| match outcome {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(why) => format!("[-]{name} failed: {why}\n"),
    };
    let lines: String = checks.iter().map(line).collect();
    let (code, word) = match well {
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    (code, format!("{lines}{} check {word}\n", uri.path().trim_start_matches('/')))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_told_to_whoever_wants_to_know() {
        let uri = |text: &str| text.parse::<Uri>().expect("an address");
        let good = [("ping", Ok(())), ("store", Ok(()))];
        assert_eq!(told(&uri("/readyz"), &good), (StatusCode::OK, "ok".to_owned()));
        let all = "[+]ping ok\n[+]store ok\nreadyz check passed\n";
        assert_eq!(told(&uri("/readyz?verbose"), &good), (StatusCode::OK, all.to_owned()));
        let bad = [("ping", Ok(())), ("store", Err("away".to_owned()))];
        let all = "[+]ping ok\n[-]store failed: away\nreadyz check failed\n";
        assert_eq!(told(&uri("/readyz"), &bad), (StatusCode::SERVICE_UNAVAILABLE, all.to_owned()));
    }
}

//! Over http, with git's own server behind it, and with a password.
use crate::support::*;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::AsyncWriteExt as _;

/// Serves the repositories of a folder as `git http-backend` does, to those who know the password.
async fn serve(root: PathBuf) -> String {
    let app = Router::new().fallback(answer).with_state(root);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}")
}

async fn answer(
    State(root): State<PathBuf>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let given = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let wanted = format!("Basic {}", STANDARD.encode("ada:s3cret"));
    if given != Some(wanted.as_str()) {
        let refused = Response::builder().status(StatusCode::UNAUTHORIZED);
        return refused
            .header("WWW-Authenticate", "Basic realm=\"git\"")
            .body(Body::empty())
            .unwrap();
    }
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method.as_str())
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", text("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", text("content-encoding"))
        .env("GIT_PROTOCOL", text("git-protocol"))
        .env("REMOTE_USER", "ada")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let write = async move {
        let _ = stdin.write_all(&body).await;
    };
    let ((), output) = tokio::join!(write, child.wait_with_output());
    let output = output.unwrap().stdout;
    let split = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..split]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            name => response.header(name, value),
        };
    }
    response.body(Body::from(output[split + 4..].to_vec())).unwrap()
}

#[tokio::test]
async fn a_password_opens_a_repository_both_ways() {
    let (world, repository) = (world().await, Repository::new());
    git(&repository.bare, &["config", "http.receivepack", "true"]);
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let url = format!("{}/there.git", serve(repository.bare.parent().unwrap().to_owned()).await);
    let opened = json!({"secret": "key", "writeBack": {}});
    apply(&world.hub, &sync("s", &url, opened)).await;
    let reason = |it: &orrery_proto::core::v1::GitSyncStatus| {
        let fetched = it.conditions.iter().find(|it| it.r#type == "Fetched");
        fetched.map(|it| (it.reason.clone(), it.message.clone())).unwrap_or_default()
    };
    let status = until(&world, "s", |it| it.state == "Failing").await;
    assert_eq!(reason(&status).0, "SecretUnfit", "{status:?}");
    let password = |word: &str| {
        json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Secret",
            "metadata": {"name": "key", "project": PROJECT},
            "spec": {"stringData": {"username": "ada", "password": word}},
        })
    };
    apply(&world.hub, &password("wrong")).await;
    let status = until(&world, "s", |it| reason(it).0 == "FetchFailed").await;
    let told = reason(&status).1;
    assert!(told.contains("Authentication failed"), "{told}");
    assert!(!told.contains("wrong"), "{told}");
    apply(&world.hub, &password("s3cret")).await;
    synced(&world, "s", &first).await;
    apply(
        &world.hub,
        &json!({
            "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
            "metadata": {"name": "b", "project": PROJECT}, "spec": {"process": {"command": "x"}, "placement": {"nodes": ["n1"]}},
        }),
    )
    .await;
    eventually("it is in git", async || repository.show("workloads/b.yaml")).await;
}

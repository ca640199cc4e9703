//! What podman says of one container, in its own words.
//!
//! The client library knows the states that Docker has, and refuses a whole answer for one that is
//! podman's own (`stopped`, `initialized`, what comes next year). So this one question is asked
//! without it: only what is used is read, and a state is a word.
use super::super::RuntimeError;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// An answer is a few kilobytes, and most of it comes from what the agent itself asked for.
const ANSWER_MAX_BYTES: usize = 16 << 20;

/// A busy machine with slow disks takes seconds.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Container {
    pub id: String,
    pub state: State,
    pub config: Config,
    pub network_settings: NetworkSettings,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct State {
    /// Podman's word for it, or Docker's.
    pub status: String,
    pub pid: Option<i64>,
    pub exit_code: Option<i64>,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Config {
    pub user: Option<String>,
    pub labels: Option<HashMap<String, String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct NetworkSettings {
    pub networks: Option<HashMap<String, Network>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Network {
    #[serde(rename = "IPAddress")]
    pub ip_address: Option<String>,
}

/// A container in a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    labels: Option<HashMap<String, String>>,
}

/// What an error has to say.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    message: String,
}

/// The container of this name; nothing when there is none.
pub(super) async fn container(
    socket: &Path,
    name: &str,
) -> Result<Option<Container>, RuntimeError> {
    let path = format!("/v1.41/containers/{name}/json");
    ask(socket, &path).await.map_err(said("say how its container is"))
}

/// The labels of all containers that have these, running or not.
pub(super) async fn labelled(
    socket: &Path,
    labels: &[(&str, &str)],
) -> Result<Vec<HashMap<String, String>>, RuntimeError> {
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let filters = serde_json::json!({ "label": labels }).to_string();
    let filters: String = filters.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/v1.41/containers/json?all=true&filters={filters}");
    let listed: Option<Vec<Listed>> =
        ask(socket, &path).await.map_err(said("list its containers"))?;
    Ok(listed.unwrap_or_default().into_iter().filter_map(|listed| listed.labels).collect())
}

fn said(doing: &'static str) -> impl FnOnce(String) -> RuntimeError {
    move |why| RuntimeError::Podman(format!("podman cannot {doing}: {why}"))
}

/// Nothing when podman has no such thing.
async fn ask<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<Option<T>, String> {
    let patience = ANSWER_PATIENCE.as_secs();
    match tokio::time::timeout(ANSWER_PATIENCE, get(socket, path)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {patience} s")),
    }
}

async fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<Option<T>, String> {
    let stream = UnixStream::connect(socket).await;
    let stream =
        stream.map_err(|error| format!("cannot connect to {}: {error}", socket.display()))?;
    let text = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
    let request = Request::get(path)
        .header("host", "podman")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let asking = async {
        let answer = sender.send_request(request).await.map_err(text)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX_BYTES).collect().await;
        Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    // The connection carries the question, and ends with the answer.
    let (answer, _ended) = tokio::join!(asking, connection);
    let (status, body) = answer?;
    match status {
        StatusCode::OK => {
            let found = serde_json::from_slice(&body);
            found.map(Some).map_err(|error| format!("its answer cannot be read: {error}"))
        }
        StatusCode::NOT_FOUND => Ok(None),
        status => {
            let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
            Err(format!("{status}: {}", refusal.message.trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    /// Asks a podman that gives this answer to the first question.
    async fn answered(answer: &str) -> Result<Option<Container>, RuntimeError> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("podman.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = Vec::new();
            while !question.ends_with(b"\r\n\r\n") {
                question.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(question).unwrap()
        };
        let (found, question) = tokio::join!(container(&socket, "orrery-1"), serve);
        assert!(question.starts_with("GET /v1.41/containers/orrery-1/json "), "{question}");
        found
    }

    fn http(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn a_state_of_podman_alone_is_read() {
        let body = r#"{"Id":"4f","Created":"x","State":{"Status":"stopped","Running":false,"Pid":0,
            "ExitCode":3,"StartedAt":"2026-11-15T12:43:33.2Z","Health":null},
            "Config":{"User":"web","Labels":null},"NetworkSettings":{"Networks":
            {"podman":{"IPAddress":"10.88.0.2"}}},"New":{"field":[1]}}"#;
        let found = answered(&http("200 OK", body)).await.unwrap().unwrap();
        assert_eq!((found.id.as_str(), found.state.status.as_str()), ("4f", "stopped"));
        assert_eq!((found.state.exit_code, found.config.user.as_deref()), (Some(3), Some("web")));
        let networks = found.network_settings.networks.unwrap();
        assert_eq!(networks["podman"].ip_address.as_deref(), Some("10.88.0.2"));
    }

    #[tokio::test]
    async fn none_and_trouble_are_told_apart() {
        let none = http("404 Not Found", r#"{"cause":"no such container"}"#);
        assert!(answered(&none).await.unwrap().is_none());
        let broken = http("500 Internal Server Error", r#"{"message":"database is locked"}"#);
        let said = answered(&broken).await.unwrap_err().to_string();
        assert!(said.contains("500") && said.contains("database is locked"), "{said}");
        let said = answered(&http("200 OK", "{")).await.unwrap_err().to_string();
        assert!(said.contains("cannot be read"), "{said}");
        let said = container(Path::new("/nowhere/podman.sock"), "x").await.unwrap_err();
        assert!(said.to_string().contains("/nowhere/podman.sock"), "{said}");
    }
}

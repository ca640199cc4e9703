//! A server on a port of its own, and a plain HTTP client.
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use orrery_hub::Hub;
use orrery_pki::TlsFiles;
use orrery_runtime::Tasks;
use orrery_server::{Listen, Operations, Server, ServerOptions, StoreOptions};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Everything that is waited for in these tests happens within this, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const WORKLOADS: &str = "/apis/apps.orrery.dev/v1/namespaces/default/workloads";
pub const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// A running server and the way to it.
pub struct World {
    pub address: String,
    pub hub: Hub,
    pub client: Client<HttpConnector, Body>,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub struct Answer {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("{error}: {} {:?}", self.code, self.text))
    }

    #[track_caller]
    pub fn expect(self, code: u16) -> Value {
        assert_eq!(self.code.as_u16(), code, "{}", self.text);
        self.json()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(TlsFiles::default()).await
    }

    /// With certificates, or without.
    pub async fn start_with(tls: TlsFiles) -> Self {
        Self::operated(tls, Operations::default()).await
    }

    /// As operators decide.
    pub async fn operated(tls: TlsFiles, operations: Operations) -> Self {
        let server = Server::open(options(tls, operations)).await.expect("a server");
        let address = server.address().expect("an address").to_string();
        let hub = server.hub().clone();
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        server.spawn(&mut tasks).expect("started");
        tokio::spawn(tasks.run(Duration::from_secs(10)));
        Self { address, hub, client: Client::builder(TokioExecutor::new()).build_http(), stop }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.client.request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Answer { code: head.status, headers: head.headers, text }
    }

    pub fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body.into()).expect("a request")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.get_as(path, "application/json").await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send(self.request(Method::GET, path, &[("accept", accept)], Body::empty())).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send_as(Method::POST, path, "application/json", body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send_as(Method::PUT, path, "application/json", body.to_string()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        self.send_as(Method::PATCH, path, kind, body.to_string()).await
    }

    pub async fn delete(&self, path: &str, body: &Value) -> Answer {
        self.send_as(Method::DELETE, path, "application/json", body.to_string()).await
    }

    pub async fn send_as(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: impl Into<Body>,
    ) -> Answer {
        self.send(self.request(method, path, &[("content-type", kind)], body)).await
    }

    /// Opens a watch; its events come one by one.
    pub async fn watch(&self, path: &str, accept: &str) -> Events {
        self.watch_with(path, &[("accept", accept)]).await
    }

    pub async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let request = self.request(Method::GET, path, headers, Body::empty());
        let response = self.client.request(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        Events { body: response.into_body(), rest: Vec::new() }
    }
}

/// A server on a port that the kernel picks, with everything in memory.
pub fn options(tls: TlsFiles, operations: Operations) -> ServerOptions {
    ServerOptions {
        identity: <_>::default(),
        drivers: Listen::Off,
        listen: ([127, 0, 0, 1], 0).into(),
        store: StoreOptions::Memory,
        tls,
        allow_plain: false,
        advertise: None,
        group_suffix: "orrery.dev".into(),
        operations,
        mesh: <_>::default(),
        storage: Listen::Beside { needed: true },
    }
}

/// The events of one watch.
pub struct Events {
    body: hyper::body::Incoming,
    rest: Vec<u8>,
}

impl Events {
    /// The next event, or none at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
            let frame = frame.expect("an event in time")?.expect("a frame");
            self.rest.extend_from_slice(frame.data_ref().expect("data"));
        }
    }
}

/// A workload that no agent runs: it stays pending, and nothing else happens to it.
pub fn workload(name: &str) -> Value {
    json!({
        "apiVersion": "apps.orrery.dev/v1",
        "kind": "Workload",
        "metadata": { "name": name },
        "spec": { "process": { "command": "sleep", "args": ["60"] }, "placement": { "nodes": ["n1"] } },
    })
}

pub fn project(name: &str) -> Value {
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Project", "metadata": { "name": name }, "spec": {},
    })
}

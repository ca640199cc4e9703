//! Plain HTTP: is it alive, is it ready, what is it.
//!
//! ```text
//!   /livez             ping, and that the store takes writes: when it does not, only a restart helps
//!   /readyz, /healthz  the same, that the store answers, and that it has room (etcd may have none)
//!   .../CHECK          one of the checks;  ?verbose says each;  ?exclude=CHECK leaves one out
//! ```
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use orrery_store::Store;
use serde_json::{Value, json};

/// A check by its name, and what it came to.
type Check = (&'static str, Result<(), String>);

/// The routes that need no resource.
pub fn router(store: Store) -> Router {
    let mut router = Router::new();
    for path in ["/livez", "/readyz", "/healthz"] {
        let all = move |State(store): State<Store>, uri: Uri| async move {
            told(&uri, checks(path, &store).await).into_response()
        };
        let one = move |State(store): State<Store>, Path(name): Path<String>| async move {
            told_of_one(&name, checks(path, &store).await)
        };
        router = router.route(path, get(all)).route(&format!("{path}/{{check}}"), get(one));
    }
    router
        .with_state(store)
        .route("/version", get(|| async { Json(version()) }))
        .route("/version/", get(|| async { Json(version()) }))
}

/// What is looked at for a path.
async fn checks(path: &str, store: &Store) -> Vec<Check> {
    let takes_writes = store.health();
    let sound = match (takes_writes, path) {
        (Ok(()), "/livez") => Ok(()),
        (Ok(()), _) => answers(store).await,
        (stopped, _) => stopped,
    };
    vec![("ping", Ok(())), ("store", sound.map_err(|error| error.to_string()))]
}

async fn answers(store: &Store) -> Result<(), orrery_store::Error> {
    store.snapshot().await?;
    store.engine().ready().await
}

/// What checks came to: one word when all is well, and every check for whoever asks with `?verbose`
/// or when something is wrong.
fn told(uri: &Uri, checks: Vec<Check>) -> (StatusCode, String) {
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let (mut verbose, mut excluded) = (false, Vec::new());
    for (key, value) in query {
        match &*key {
            "verbose" => verbose = true,
            "exclude" => excluded.push(value.into_owned()),
            _ => {}
        }
    }
    let is_excluded = |name: &str| excluded.iter().any(|excluded| excluded == name);
    let mut well = true;
    let mut lines = String::new();
    for (name, outcome) in &checks {
        lines += &match outcome {
            _ if is_excluded(name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(why) => {
                well = false;
                format!("[-]{name} failed: {why}\n")
            }
        };
    }
    let known = |name: &String| checks.iter().any(|(known, _)| known == name);
    for unknown in excluded.iter().filter(|name| !known(name)) {
        lines += &format!("warn: there is no check {unknown:?} that could be excluded\n");
    }
    let (code, word) = match well {
        true if !verbose => return (StatusCode::OK, "ok".to_owned()),
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    (code, format!("{lines}{} check {word}\n", uri.path().trim_start_matches('/')))
}

fn told_of_one(name: &str, checks: Vec<Check>) -> Response {
    match checks.into_iter().find(|(known, _)| *known == name) {
        Some((_, Ok(()))) => "ok".into_response(),
        Some((_, Err(why))) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{name} failed: {why}\n")).into_response()
        }
        None => super::Failure::unknown_path().into_response(),
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
        "platform": format!("{}/{}", std::env::consts::OS, go_name(std::env::consts::ARCH)),
    })
}

/// An architecture as the tools of the dialect call it.
fn go_name(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use orrery_store::{
        Engine, Entry, Error, Incarnation, Lease, ListRequest, Listing, Op, Revision, StoreOptions,
        Watch,
    };
    use std::sync::Arc;
    use std::time::Duration;
    use tower::ServiceExt as _;

    /// An engine that has stopped to take writes, as one does whose disk is full.
    #[derive(Debug)]
    struct Stopped {
        inner: Arc<dyn Engine>,
        /// It takes them again when somebody elsewhere makes room, as etcd does.
        for_now: bool,
    }

    fn full<T>() -> Result<T, Error> {
        Err(Error::Unavailable { reason: "the disk is full".into() })
    }

    #[async_trait::async_trait]
    impl Engine for Stopped {
        fn incarnation(&self) -> Incarnation {
            self.inner.incarnation()
        }
        fn health(&self) -> Result<(), Error> {
            if self.for_now { Ok(()) } else { full() }
        }
        async fn ready(&self) -> Result<(), Error> {
            full()
        }
        async fn current(&self, prefix: &str) -> Result<Revision, Error> {
            self.inner.current(prefix).await
        }
        async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
            self.inner.get(key).await
        }
        async fn list(&self, request: ListRequest) -> Result<Listing, Error> {
            self.inner.list(request).await
        }
        async fn commit(&self, _: Vec<Op>) -> Result<Revision, Error> {
            full()
        }
        async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, Error> {
            self.inner.watch(prefix, after).await
        }
        async fn compact(&self, _: Revision) -> Result<(), Error> {
            full()
        }
        async fn acquire(&self, _: &str, _: &str, _: Duration) -> Result<Option<Lease>, Error> {
            full()
        }
        async fn renew(&self, _: &Lease) -> Result<bool, Error> {
            full()
        }
        async fn resign(&self, _: Lease) -> Result<(), Error> {
            full()
        }
        async fn close(&self) {
            self.inner.close().await;
        }
    }

    async fn ask(store: &Store, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = router(store.clone()).oneshot(request).await.expect("an answer");
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (code, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_store_that_takes_no_more_writes_is_neither_ready_nor_alive() {
        let stopped = Arc::new(Stopped { inner: orrery_store::memory(), for_now: false });
        let store = Store::start(stopped, StoreOptions::default()).await.expect("it still reads");
        store.snapshot().await.expect("it still reads");
        for path in ["livez", "readyz", "healthz"] {
            let (code, text) = ask(&store, &format!("/{path}")).await;
            assert_eq!(code, 503, "{path}");
            assert!(text.starts_with("[+]ping ok\n[-]store failed: "), "{path}: {text}");
            assert!(text.contains("the disk is full"), "{path}: {text}");
            let (code, text) = ask(&store, &format!("/{path}/store")).await;
            assert!(code == 503 && text.contains("the disk is full"), "{path}: {text}");
            assert_eq!(ask(&store, &format!("/{path}/ping")).await, (200, "ok".to_owned()));
            let excluded = ask(&store, &format!("/{path}?exclude=store")).await;
            assert_eq!(excluded, (200, "ok".to_owned()), "{path}");
        }
        store.stop().await;
    }

    /// Nobody restarts a server for it, and nobody sends requests to it.
    #[tokio::test]
    async fn a_store_without_room_for_now_is_alive_and_not_ready() {
        let engine = Arc::new(Stopped { inner: orrery_store::memory(), for_now: true });
        let store = Store::start(engine, StoreOptions::default()).await.expect("it can be read");
        assert_eq!(ask(&store, "/livez").await, (200, "ok".to_owned()));
        for path in ["/readyz", "/healthz"] {
            let (code, text) = ask(&store, path).await;
            assert!(code == 503 && text.contains("the disk is full"), "{path}: {text}");
        }
        store.stop().await;
    }

    #[tokio::test]
    async fn every_check_is_told_to_whoever_wants_to_know() {
        let store = Store::start(orrery_store::memory(), StoreOptions::default()).await;
        let store = store.expect("a store");
        assert_eq!(ask(&store, "/readyz").await, (200, "ok".to_owned()));
        let all = "[+]ping ok\n[+]store ok\nreadyz check passed\n";
        assert_eq!(ask(&store, "/readyz?verbose").await, (200, all.to_owned()));
        let all = "[+]ping ok\n[+]store excluded: ok\nwarn: there is no check \"x\" that could be excluded\nlivez check passed\n";
        let asked = ask(&store, "/livez?verbose&exclude=store&exclude=x").await;
        assert_eq!(asked, (200, all.to_owned()));
        assert_eq!(ask(&store, "/readyz/ping").await, (200, "ok".to_owned()));
        assert_eq!(ask(&store, "/readyz/luck").await.0, 404);
        store.stop().await;
    }

    #[test]
    fn architectures_have_the_names_that_tools_know() {
        assert_eq!(
            [go_name("x86_64"), go_name("aarch64"), go_name("riscv64")],
            ["amd64", "arm64", "riscv64"]
        );
    }
}

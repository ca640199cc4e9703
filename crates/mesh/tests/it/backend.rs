//! Instances of a service: each answers every request with its own name, for as long as it is well.
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use orrery_mesh::address::Endpoint;
use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How an instance does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// Answers with 500, and says on `/healthz` that it is not well.
    Fails,
    /// Takes requests and never answers.
    Hangs,
}

/// Stops when dropped.
pub struct Backend {
    pub endpoint: Endpoint,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Backend {
    pub async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
        let address = listener.local_addr().expect("a bound address");
        let (mood, asked) = (Arc::new(Mutex::new(Mood::Well)), Arc::new(AtomicUsize::new(0)));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, name, mood.clone(), asked.clone()));
        let endpoint = Endpoint::of(address).expect("a real port");
        Self { endpoint, mood, asked, _serving: serving }
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    /// How many requests it took, health checks aside.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn serve(
    listener: TcpListener,
    name: &'static str,
    mood: Arc<Mutex<Mood>>,
    asked: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (mood, asked) = (mood.clone(), asked.clone());
        let answer = service_fn(move |request: hyper::Request<Incoming>| {
            if request.uri().path() != "/healthz" {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            let mood = *mood.lock();
            async move {
                let code = match mood {
                    Mood::Well => 200,
                    Mood::Fails => 500,
                    Mood::Hangs => std::future::pending().await,
                };
                let body = Full::new(Bytes::from_static(name.as_bytes()));
                let answer = hyper::Response::builder().status(code).body(body);
                Ok::<_, Infallible>(answer.expect("a known status"))
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer);
        connections.spawn(async move {
            // A proxy that closes a connection is no failure of the backend.
            let _ = serving.await;
        });
    }
}

/// An instance that greets everybody who connects with its name, and repeats what it is told.
pub struct Echo {
    pub endpoint: Endpoint,
    _serving: JoinSet<()>,
}

impl Echo {
    pub async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
        let address = listener.local_addr().expect("a bound address");
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(echo(stream, name));
            }
        });
        Self { endpoint: Endpoint::of(address).expect("a real port"), _serving: serving }
    }
}

/// A peer that goes away ends it.
async fn echo(mut stream: TcpStream, name: &'static str) {
    if stream.write_all(format!("{name}:").as_bytes()).await.is_err() {
        return;
    }
    let mut buffer = [0_u8; 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

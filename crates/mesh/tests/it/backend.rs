//! Instances of a service: each answers every request with its own name.
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use orrery_mesh::address::Endpoint;
use std::convert::Infallible;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Stops when dropped.
pub struct Backend {
    pub endpoint: Endpoint,
    _serving: JoinSet<()>,
}

impl Backend {
    pub async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
        let address = listener.local_addr().expect("a bound address");
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, name));
        Self { endpoint: Endpoint::of(address).expect("a real port"), _serving: serving }
    }
}

async fn serve(listener: TcpListener, name: &'static str) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let answer = service_fn(move |_| async move {
            Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::from_static(
                name.as_bytes(),
            ))))
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer);
        connections.spawn(async move {
            // A proxy that closes a connection is no failure of the backend.
            let _ = serving.await;
        });
    }
}

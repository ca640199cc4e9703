//! Serves gRPC on a listener that is passed in: the controller's port, or the CSI driver's socket.
use super::local::Local;
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::CertificateDer;
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Status, service::Routes};
use tower::ServiceExt;
use x509_parser::{extensions::GeneralName, prelude::FromDer};

/// A registry uses four connections per controller; the rest is room for its replicas and tools.
const CONNECTIONS_MAX: usize = 256;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls that are worked on at once, with those whose callers have gone; more of them wait.
const CALLS_MAX: usize = 1024;
/// After an accept that failed, usually because file descriptors ran out.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long calls may go on after the server was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where connections come from.
pub enum Listener {
    /// With TLS only a registry is let in, by its certificate.
    Tcp(TcpListener, Option<Arc<rustls::ServerConfig>>),
    /// A socket on this machine; its file's permissions say who may use it.
    Unix(UnixListener),
}

/// Serves until `stop` is cancelled, then lets calls finish for a while.
pub async fn serve(listener: Listener, routes: Routes, stop: CancellationToken) {
    let calls = Calls::new(routes.prepare());
    tokio::select! {
        () = accept(listener, &calls, &stop) => {}
        () = stop.cancelled() => {}
    }
    calls.tasks.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, calls.tasks.wait()).await.is_err() {
        tracing::warn!(left = calls.tasks.len(), "calls were cut off because they did not end");
    }
}

/// What answers calls, in tasks of their own.
#[derive(Clone)]
struct Calls {
    routes: Routes,
    /// Connections and calls.
    tasks: TaskTracker,
    places: Arc<Semaphore>,
}

impl Calls {
    fn new(routes: Routes) -> Self {
        let places = Arc::new(Semaphore::new(CALLS_MAX));
        Self { routes, tasks: TaskTracker::new(), places }
    }

    /// Works a call off to its end, whether or not its caller waits for it. Callers of these services
    /// give up after some seconds and come again. A call that ended there in the middle would leave
    /// its work to the next one while threads and programs of the first still go on with it.
    async fn answer(
        self,
        request: http::Request<hyper::body::Incoming>,
    ) -> Result<http::Response<tonic::body::Body>, Infallible> {
        let Self { routes, tasks, places } = self;
        let Ok(place) = places.acquire_owned().await else {
            return Ok(Status::unavailable("the storage service is stopping").into_http());
        };
        let running = tasks.spawn(async move {
            let answer = routes.oneshot(request).await;
            drop(place);
            answer
        });
        match running.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Ok(Status::unavailable("the storage service is stopping").into_http()),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn accept(listener: Listener, calls: &Calls, stop: &CancellationToken) {
    let (listener, acceptor) = prepare(listener);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match next(&listener).await {
            Ok(stream) => {
                let (own, acceptor, stop) = (calls.clone(), acceptor.clone(), stop.clone());
                calls.tasks.spawn(async move {
                    if let Err(error) = connection(stream, acceptor, own, stop).await {
                        tracing::debug!(error, "a connection ended badly");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn prepare(listener: Listener) -> (Listener, Option<TlsAcceptor>) {
    match listener {
        Listener::Tcp(listener, Some(config)) => {
            let mut config = (*config).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            (Listener::Tcp(listener, None), Some(TlsAcceptor::from(Arc::new(config))))
        }
        plain @ (Listener::Tcp(_, None) | Listener::Unix(_)) => (plain, None),
    }
}

async fn next(listener: &Listener) -> io::Result<Box<dyn Stream>> {
    match listener {
        Listener::Tcp(listener, _) => {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Listener::Unix(listener) => Ok(Box::new(Local::new(listener.accept().await?.0))),
    }
}

async fn connection(
    stream: Box<dyn Stream>,
    acceptor: Option<TlsAcceptor>,
    calls: Calls,
    stop: CancellationToken,
) -> Result<(), String> {
    let Some(acceptor) = acceptor else { return streams(stream, calls, stop).await };
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .map_err(|_| "the TLS handshake took too long".to_owned())?
        .map_err(|error| format!("TLS handshake: {error}"))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    if !chain.first().is_some_and(is_registry) {
        return Err("the peer is not a registry: its certificate has no such name".to_owned());
    }
    streams(stream, calls, stop).await
}

/// A controller takes calls only from a registry, which has checked whose they are.
fn is_registry(leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = x509_parser::certificate::X509Certificate::from_der(leaf) else {
        return false;
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
    names.value.general_names.iter().any(|name| {
        if let GeneralName::DNSName(dns) = name {
            return *dns == "component.registry";
        }
        let GeneralName::URI(uri) = name else { return false };
        let path = uri.strip_prefix("spiffe://").and_then(|rest| rest.split_once('/'));
        path.is_some_and(|(_, path)| path.starts_with("server/"))
    })
}

async fn streams<S>(stream: S, calls: Calls, stop: CancellationToken) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| calls.clone().answer(request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(|error| error.to_string()),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(|error| error.to_string())
}

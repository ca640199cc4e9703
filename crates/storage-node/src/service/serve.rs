//! Serves gRPC on a listener that is passed in: the controller's port, or the CSI driver's socket.
use super::local::Local;
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::CertificateDer;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::service::Routes;
use tower::ServiceExt;
use x509_parser::{extensions::GeneralName, prelude::FromDer};

/// A registry uses four connections per controller; the rest is room for its replicas and tools.
const CONNECTIONS_MAX: usize = 256;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
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
    let routes = routes.prepare();
    let connections = TaskTracker::new();
    tokio::select! {
        () = accept(listener, routes, &connections, &stop) => {}
        () = stop.cancelled() => {}
    }
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(left = connections.len(), "calls were cut off because they did not end");
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn accept(
    listener: Listener,
    routes: Routes,
    connections: &TaskTracker,
    stop: &CancellationToken,
) {
    let (listener, acceptor) = prepare(listener);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match next(&listener).await {
            Ok(stream) => {
                let (routes, acceptor, stop) = (routes.clone(), acceptor.clone(), stop.clone());
                connections.spawn(async move {
                    if let Err(error) = connection(stream, acceptor, routes, stop).await {
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
    routes: Routes,
    stop: CancellationToken,
) -> Result<(), String> {
    let Some(acceptor) = acceptor else { return streams(stream, routes, stop).await };
    let stream = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
        .await
        .map_err(|_| "the TLS handshake took too long".to_owned())?
        .map_err(|error| format!("TLS handshake: {error}"))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    if !chain.first().is_some_and(is_registry) {
        return Err("the peer is not a registry: its certificate has no such name".to_owned());
    }
    streams(stream, routes, stop).await
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

async fn streams<S>(stream: S, routes: Routes, stop: CancellationToken) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        routes.clone().oneshot(request)
    });
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

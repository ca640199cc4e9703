use super::super::{Silence, gathered};
use super::*;
use axum::http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};
use tokio::sync::Notify;

/// A connection that counts how often something is written to it.
struct Counted {
    inner: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

type Client = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

/// A client of a service on a connection of its own.
async fn served<F>(answer: impl Fn(String) -> F + Send + 'static) -> (Client, Arc<AtomicUsize>)
where
    F: Future<Output = &'static str> + Send + 'static,
{
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let (io, turns) = gathered(Counted { inner: ours, writes: writes.clone() }, Silence::new());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.uri().path().to_owned());
        async move {
            let body = Full::new(Bytes::from_static(answer.await.as_bytes()));
            let mut trailers = axum::http::HeaderMap::new();
            trailers.insert("grpc-status", axum::http::HeaderValue::from_static("0"));
            let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
            Ok::<_, Infallible>(Response::new(Box::pin(body)))
        }
    });
    let guest = Guest::default();
    let connection = hyper::server::conn::http2::Builder::new(guest.clone())
        .serve_connection(TokioIo::new(io), service);
    tokio::spawn(Hosted::new(connection, turns, guest));
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(theirs)).await;
    let (client, running) = handshake.expect("connected");
    tokio::spawn(running);
    (client, writes)
}

async fn get(client: &mut Client, path: &str) -> Result<usize, hyper::Error> {
    let request = Request::get(format!("http://here{path}")).body(Full::default());
    let response = client.send_request(request.expect("a request")).await?;
    Ok(response.into_body().collect().await?.to_bytes().len())
}

const LONG: &str = match std::str::from_utf8(&[b'x'; 2000]) {
    Ok(text) => text,
    Err(_) => "",
};

#[tokio::test]
async fn an_answer_leaves_in_one_write() {
    let (mut client, writes) = served(|_| async { LONG }).await;
    // The first one comes with what the two ends agree on.
    get(&mut client, "/").await.expect("an answer");
    get(&mut client, "/").await.expect("an answer");
    let before = writes.load(Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(get(&mut client, "/").await.expect("an answer"), 2000);
    }
    assert_eq!(writes.load(Ordering::SeqCst) - before, 10, "head, message and end of each");
}

#[tokio::test]
async fn who_comes_while_another_waits_is_served() {
    let hold = Arc::new(Notify::new());
    let held = hold.clone();
    let (client, _) = served(move |path| {
        let held = held.clone();
        async move {
            if path == "/slow" {
                held.notified().await;
            }
            LONG
        }
    })
    .await;
    let (mut slow, mut quick) = (client.clone(), client);
    let slow = tokio::spawn(async move { get(&mut slow, "/slow").await });
    for _ in 0..3 {
        get(&mut quick, "/quick").await.expect("it does not wait for the other");
    }
    assert!(!slow.is_finished());
    hold.notify_one();
    assert_eq!(slow.await.expect("no panic").expect("an answer"), 2000);
}

#[tokio::test]
async fn a_request_that_panics_takes_nobody_along() {
    let (mut client, _) = served(|path| async move {
        assert_ne!(path, "/bad", "this is what the test is about");
        LONG
    })
    .await;
    get(&mut client, "/bad").await.expect_err("it got no answer");
    assert_eq!(get(&mut client, "/good").await.expect("the connection lives"), 2000);
}

#[tokio::test]
async fn a_connection_is_not_asked_when_only_its_guest_was_woken() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (counted, guest) = (asked.clone(), Guest::default());
    let connection = std::future::poll_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Poll::<()>::Pending
    });
    let (_, turns) = gathered(tokio::io::duplex(64).0, Silence::new());
    let (hold, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (held, ended) = (hold.clone(), done.clone());
    guest.execute(async move {
        held.notified().await;
        ended.notify_one();
    });
    let running = tokio::spawn(Hosted::new(connection, turns, guest));
    hold.notify_one();
    done.notified().await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "at the beginning");
    running.abort();
}

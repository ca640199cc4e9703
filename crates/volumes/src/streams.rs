//! One caller's connection and the streams on it.
//!
//! ```text
//!  bytes --> h2 --> a request --> answer(request) --> its response --> h2 --> bytes
//! ```
//! One task moves the bytes and answers the calls: an answer that arrives is written by the same turn
//! that took it, without another hand-over.
use crate::proxy::{Body, Gather, Pass, Received, Reset, dial_limits};
use bytes::Bytes;
use futures::{StreamExt, stream::FuturesUnordered};
use h2::{
    Ping, PingPong,
    server::{Connection, SendResponse},
};
use http::{Request, Response};
use http_body::Body as _;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, Sleep},
};
use tokio_util::sync::CancellationToken;

/// Streams per connection. A host's CSI driver uses a handful, a benchmark a few hundred.
const STREAMS_PER_CONNECTION_MAX: u32 = 1024;
/// What waits to be sent on one stream before its sender has to wait too.
const SEND_BUFFER_BYTES_MAX: usize = 1 << 20;
/// A peer that connected and does not begin to speak is using up a place.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// A caller that vanished without a word is noticed after these two, and gives its place back.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers every stream of a connection, until its end. Once `stop` is cancelled no further ones are
/// taken, and those that are there may finish.
pub async fn serve<S, A, F>(io: S, answer: A, stop: CancellationToken) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Received>) -> F,
    F: Future<Output = Result<Response<Body>, Reset>>,
{
    let mut connection = tokio::time::timeout(PREFACE_TIMEOUT, handshake(io))
        .await
        .map_err(|_| "it did not begin to speak HTTP/2 in time".to_owned())?
        .map_err(|error| format!("HTTP/2 handshake: {error}"))?;
    let mut alive = connection.ping_pong().map(Alive::new);
    let mut calls = FuturesUnordered::new();
    let mut stopped = pin!(stop.cancelled());
    let mut stopping = false;
    poll_fn(|context| {
        if !stopping && stopped.as_mut().poll(context).is_ready() {
            stopping = true;
            connection.graceful_shutdown();
        }
        if let Some(alive) = &mut alive
            && alive.poll_gone(context).is_ready()
        {
            return Poll::Ready(Err("the caller does not answer any more".to_owned()));
        }
        loop {
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    calls.push(call(answer(request.map(Received::new)), respond));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.to_string())),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                // A call that ended had something to send, which the connection sends when asked again.
                Poll::Pending => match calls.poll_next_unpin(context) {
                    Poll::Ready(Some(())) => {
                        while let Poll::Ready(Some(())) = calls.poll_next_unpin(context) {}
                    }
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    })
    .await
}

async fn handshake<S>(io: S) -> Result<Connection<Gather<S>, Bytes>, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    h2::server::Builder::new()
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .initial_window_size(dial_limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(dial_limits::CONNECTION_WINDOW_BYTES)
        .max_frame_size(dial_limits::FRAME_BYTES_MAX)
        .max_header_list_size(dial_limits::HEADER_LIST_BYTES_MAX)
        .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
        .handshake(Gather::new(io))
        .await
}

/// One stream. A caller that takes its call back ends the answering, too.
async fn call<F>(answering: F, mut respond: SendResponse<Bytes>)
where
    F: Future<Output = Result<Response<Body>, Reset>>,
{
    let mut answering = pin!(answering);
    let answered = poll_fn(|context| match answering.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => respond.poll_reset(context).map(|_| None),
    });
    let response = match answered.await {
        Some(Ok(response)) => response,
        Some(Err(reset)) => return respond.send_reset(reset.reason()),
        None => return,
    };
    let (head, body) = response.into_parts();
    let whole = body.is_end_stream();
    match respond.send_response(Response::from_parts(head, ()), whole) {
        Ok(stream) if !whole => Pass::new(body, stream).await,
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "a caller was gone before its answer"),
    }
}

/// Asks a connection now and then whether somebody is still there.
struct Alive {
    pings: PingPong,
    timer: Pin<Box<Sleep>>,
    asked: bool,
}

impl Alive {
    fn new(pings: PingPong) -> Self {
        Self { pings, timer: Box::pin(tokio::time::sleep(KEEP_ALIVE_INTERVAL)), asked: false }
    }

    /// Ready when a question was not answered in time.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // An error is the connection's, which tells of it itself.
        if self.asked && matches!(self.pings.poll_pong(context), Poll::Ready(Ok(_))) {
            self.wait(false, KEEP_ALIVE_INTERVAL);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            if self.asked || self.pings.send_ping(Ping::opaque()).is_err() {
                return Poll::Ready(());
            }
            self.wait(true, KEEP_ALIVE_TIMEOUT);
            // Whoever wants to be told of an answer has to ask for it.
            let _not_yet = self.pings.poll_pong(context);
        }
        Poll::Pending
    }

    fn wait(&mut self, asked: bool, time: Duration) {
        self.asked = asked;
        self.timer.as_mut().reset(Instant::now() + time);
    }
}

#[cfg(test)]
mod tests;

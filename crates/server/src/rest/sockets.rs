//! Watches over WebSockets, as pages and programs in Java ask for them.
//!
//! ```text
//!   GET .../workloads?watch=true   Upgrade: websocket
//!       refused like any other watch, else 101, and then each event in a message of text
//!       <── {"type":"ADDED","object":{...}}
//! ```
//! Nothing about the watch itself is different: its answer is made as ever, and its lines go into the socket. So it
//! counts as a watch, and ends with the permission, the proof of who asked, or the server.
use super::Rest;
use super::failure::Failure;
use super::query::Query;
use crate::identity::{LastWords, Lasts};
use crate::websocket;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Who watches has nothing to say.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// How often a watcher is asked whether it still is there. That nobody is there is found by the connection.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long a watcher may take to hear the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Puts the answer of a watch into a socket, where one is asked for.
pub async fn watches(State(rest): State<Arc<Rest>>, mut request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let watch = Query::parse(request.method(), query).is_ok_and(|query| query.watch);
    if !watch || !websocket::is_asked(&request) {
        return next.run(request).await;
    }
    let protocol = websocket::offered(request.headers()).next().map(str::to_owned);
    let accepted = match websocket::accepted(&request, protocol.as_deref()) {
        Ok(accepted) => accepted,
        Err(why) => return Failure::bad_request(why).into_response(),
    };
    let lasts = request.extensions().get::<Lasts>().cloned();
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, events) = next.run(request).await.into_parts();
    let Some(LastWords(last)) = head.extensions.get::<LastWords>().cloned() else {
        return Response::from_parts(head, events);
    };
    if head.status != StatusCode::OK {
        return Response::from_parts(head, events);
    }
    rest.sockets.spawn(async move {
        let upgraded = match upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => return tracing::debug!(%error, "a watch lost its client"),
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
        Watcher { socket }.run(events, lasts, &last).await;
    });
    accepted
}

struct Watcher<S> {
    socket: WebSocketStream<S>,
}

/// Why nothing more is told.
enum End {
    /// The watch is over, or the server stops.
    Told,
    Gone,
    /// The proof of who asked is good no longer.
    Unproven,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Watcher<S> {
    async fn run(mut self, events: Body, lasts: Option<Lasts>, last: &Bytes) {
        let proven = async {
            match lasts {
                Some(lasts) => lasts.ended().await,
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            () = proven => End::Unproven,
            end = self.tell(events) => end,
        };
        // Whoever does not listen any more needs no farewell.
        let _ = tokio::time::timeout(FAREWELL, self.farewell(end, last)).await;
    }

    async fn tell(&mut self, mut events: Body) -> End {
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        loop {
            let heard = tokio::select! {
                event = events.frame() => match event {
                    Some(Ok(event)) => match event.into_data() {
                        Ok(line) => self.say(&line).await,
                        Err(_) => true,
                    },
                    Some(Err(_)) | None => return End::Told,
                },
                said = self.socket.next() => match said {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => false,
                    // It may say what it wants; nothing is asked.
                    Some(Ok(_)) => true,
                },
                _ = pings.tick() => self.socket.send(Message::Ping(Bytes::new())).await.is_ok(),
            };
            if !heard {
                return End::Gone;
            }
        }
    }

    /// Tells one event; whether it can be heard.
    async fn say(&mut self, line: &Bytes) -> bool {
        let text = line.slice(..line.trim_ascii_end().len());
        match Utf8Bytes::try_from(text) {
            Ok(text) => self.socket.send(Message::Text(text)).await.is_ok(),
            Err(_) => false,
        }
    }

    async fn farewell(mut self, end: End, last: &Bytes) {
        let code = match end {
            End::Told | End::Gone => CloseCode::Normal,
            End::Unproven if self.say(last).await => CloseCode::Policy,
            End::Unproven => return,
        };
        if self.socket.close(Some(CloseFrame { code, reason: "".into() })).await.is_err() {
            return;
        }
        // What is unread when a connection closes may take along what was sent.
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}

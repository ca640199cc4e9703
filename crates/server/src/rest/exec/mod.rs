//! Commands beside the copies of a workload, over a WebSocket with the channels of the dialect.
//!
//! ```text
//!   GET .../workloads/NAME/exec?command=sh&command=-c&command=...&stdin=true&tty=true   Upgrade: websocket
//!       v5.channel.k8s.io (or v4): what is asked, allowed and begun is answered with 101
//!                                        │
//!   socket <── session ──> fleet ──> agent
//! ```
mod channels;
mod session;

use super::Rest;
use super::failure::Failure;
use super::logs::unknown_parameter;
use super::patching::absent_project;
use super::query::truth;
use super::resource::Resource;
use crate::gate::{Caller, Transport};
use crate::identity::{GOOD_NO_LONGER, Lasting, Lasts, asked_of_part};
use crate::limits::Taken;
use crate::websocket;
use axum::extract::Request;
use axum::response::Response;
use channels::{Channels, End, Protocol};
use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use orrery_hub::ObjectName;
use orrery_proto::fleet::v1::{ExecRequest, ExecStart};
use session::Session;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

/// What rules call running a command, whichever method of HTTP begins it.
pub const VERB: &str = "create";

/// Commands at once over all sockets of this server. People run a handful, and each may hold a megabyte.
const COMMANDS_MAX: usize = 256;
const BUSY: &str = "too many commands run over this server, try again in a moment";
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a client may say at once. Some send all they have in one message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Words that wait on their way to the agent: all input that a command gives room for, and a few others.
const WORDS_WAITING_MAX: usize = 64;

/// The commands that run over sockets.
pub struct Execs {
    places: Arc<Semaphore>,
}

impl Default for Execs {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(COMMANDS_MAX)) }
    }
}

/// What a command holds for as long as it runs.
struct Held {
    _taken: Taken,
    _place: OwnedSemaphorePermit,
}

/// What is to be run, and what of it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    copy: String,
    command: Vec<String>,
    tty: bool,
    channels: Channels,
}

impl Options {
    fn parse(raw: &str) -> Result<Self, Failure> {
        let channels = Channels { stdin: false, stdout: true, stderr: true };
        let mut options = Self { copy: String::new(), command: Vec::new(), tty: false, channels };
        for (key, value) in form_urlencoded::parse(raw.as_bytes()) {
            let key = &*key;
            match key {
                "container" => options.copy = value.into_owned(),
                "command" => options.command.push(value.into_owned()),
                "tty" => options.tty = truth(key, &value)?,
                "stdin" => options.channels.stdin = truth(key, &value)?,
                "stdout" => options.channels.stdout = truth(key, &value)?,
                "stderr" => options.channels.stderr = truth(key, &value)?,
                other => return Err(unknown_parameter(other)),
            }
        }
        if options.command.is_empty() {
            let message = "there is no command: name it and each of its arguments with command=";
            return Err(Failure::bad_request(message));
        }
        Ok(options)
    }
}

#[cfg(feature = "fuzzing")]
pub fn check_query(raw: &str) -> Result<(), Failure> {
    Options::parse(raw).map(drop)
}

/// Reads what a client may say, in either version.
#[cfg(feature = "fuzzing")]
pub fn check_message(bytes: &[u8]) {
    for protocol in Protocol::ALL {
        let said = channels::read(protocol, axum::body::Bytes::copy_from_slice(bytes));
        assert!(said.err().is_none_or(|problem| !problem.is_empty()));
    }
}

pub async fn begin(
    rest: &Rest,
    resource: &Resource,
    name: &ObjectName,
    mut request: Request,
) -> Result<Response, Failure> {
    let guard = rest.guard_of(&request);
    let failed = |error| Failure::of(absent_project(error, resource, name), resource, &name.name);
    guard.check_part(VERB, &resource.kind, "exec", &name.project, &name.name).map_err(failed)?;
    let options = Options::parse(request.uri().query().unwrap_or_default())?;
    let protocol = spoken(&request)?;
    let answer =
        websocket::accepted(&request, Some(protocol.name())).map_err(Failure::bad_request)?;
    let held = held(rest, &request).map_err(|error| match error {
        Refused::Busy => Failure::too_many(BUSY, RETRY_AFTER),
        Refused::Peer(error) => failed(error),
    })?;
    let (say, words) = mpsc::channel(WORDS_WAITING_MAX);
    let start = ExecStart {
        command: options.command,
        stdin: options.channels.stdin,
        tty: options.tty,
        size: None,
    };
    let wanted = ExecRequest {
        project: name.project.clone(),
        name: name.name.clone(),
        instance: options.copy,
        start: Some(start),
    };
    let events = rest.fleet.exec(wanted, words).await.map_err(failed)?;
    let asked = asked_of_part(VERB, &resource.kind, "exec", &name.project, &name.name);
    let events = guard.lasting(Lasting::new(asked), events.map(Ok).boxed());
    let lasts = request.extensions().get::<Lasts>().cloned();
    let (upgrade, stop) = (hyper::upgrade::on(&mut request), rest.stop.clone());
    rest.sockets.spawn(async move {
        let _held = held;
        let upgraded = match upgrade.await {
            Ok(upgraded) => TokioIo::new(upgraded),
            Err(error) => return tracing::debug!(%error, "a command lost its client"),
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
        let over = async {
            tokio::select! {
                () = stop.cancelled() => End::Stopped,
                () = proven(lasts) => End::Unproven(GOOD_NO_LONGER),
            }
        };
        Session::new(socket, protocol, options.channels, say, events).run(over).await;
    });
    Ok(answer)
}

/// The best of what is spoken on both sides.
fn spoken(request: &Request) -> Result<Protocol, Failure> {
    if !websocket::is_asked(request) {
        let message = "a command runs over a WebSocket: ask for an upgrade, over HTTP/1.1";
        return Err(Failure::bad_request(message));
    }
    let protocol = websocket::offered(request.headers()).find_map(Protocol::named);
    protocol.ok_or_else(|| {
        let known = Protocol::ALL.map(Protocol::name).join(" or ");
        Failure::bad_request(format!("Sec-WebSocket-Protocol must be {known}"))
    })
}

enum Refused {
    Busy,
    Peer(orrery_hub::Error),
}

fn held(rest: &Rest, request: &Request) -> Result<Held, Refused> {
    let caller = Caller::of(Transport::Rest, request);
    let taken = rest.gate.following(&caller).map_err(Refused::Peer)?;
    let place = rest.execs.places.clone().try_acquire_owned().map_err(|_| Refused::Busy)?;
    Ok(Held { _taken: taken, _place: place })
}

/// Until the proof of who asked is good no longer; who needed none needs none later.
async fn proven(lasts: Option<Lasts>) {
    match lasts {
        Some(lasts) => lasts.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expect: Result<Options, &str>) {
        match (Options::parse(query), expect) {
            (Ok(read), Ok(options)) => assert_eq!(read, options, "{query}"),
            (Err(failure), Err(words)) => {
                assert!(failure.message.contains(words), "{query}: {}", failure.message);
            }
            (read, expect) => panic!("{query}: {read:?}, not {expect:?}"),
        }
    }

    #[test]
    fn what_a_query_asks_for_is_run_or_refused() {
        let plain = Options {
            copy: String::new(),
            command: vec!["ls".into(), "-l a".into()],
            tty: false,
            channels: Channels { stdin: false, stdout: true, stderr: true },
        };
        check("command=ls&command=-l+a", Ok(plain.clone()));
        let channels = Channels { stdin: true, stdout: true, stderr: false };
        check(
            "container=web-1&command=ls&command=-l%20a&stdin=true&stderr=false&tty=true",
            Ok(Options { copy: "web-1".into(), tty: true, channels, ..plain }),
        );
        check("", Err("there is no command"));
        check("command=ls&tty=perhaps", Err("tty"));
        check("command=ls&user=root", Err("no parameter \"user\""));
    }
}

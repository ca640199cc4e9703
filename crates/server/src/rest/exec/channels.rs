//! The channels of a command over a WebSocket, as the dialect numbers them.
//!
//! ```text
//!   a message:   one byte, the channel ── its data
//!   0 stdin   1 stdout   2 stderr   3 how it ended: a Status   4 the size of the terminal: {"Width", "Height"}
//!   255       since v5, from the client: the channel named by the next byte ends
//! ```
use axum::body::Bytes;
use axum::http::StatusCode;
use orrery_proto::fleet::v1::{ExecEnd, TerminalSize};
use serde::Deserialize;
use serde_json::{Value, json};

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// A version of the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    V4,
    /// A client can end its input and still listen.
    V5,
}

impl Protocol {
    pub const ALL: [Self; 2] = [Self::V5, Self::V4];

    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

/// Which channels are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// What a client says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Typed(Bytes),
    /// Nothing more is typed.
    TypedAll,
    Resized(TerminalSize),
    /// What means nothing to us.
    Nothing,
}

/// The terminal of a client, as the dialect writes it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

/// Reads one message of a client; an error says what is wrong with it.
pub fn read(protocol: Protocol, mut message: Bytes) -> Result<Said, String> {
    if message.is_empty() {
        return Ok(Said::Nothing);
    }
    match message.split_to(1)[0] {
        STDIN if message.is_empty() => Ok(Said::Nothing),
        STDIN => Ok(Said::Typed(message)),
        RESIZE => {
            let size: Size = serde_json::from_slice(&message)
                .map_err(|error| format!("the size of the terminal cannot be read: {error}"))?;
            let (rows, columns) = (size.height.into(), size.width.into());
            Ok(Said::Resized(TerminalSize { rows, columns }))
        }
        CLOSE if protocol == Protocol::V5 => match *message {
            [STDIN] => Ok(Said::TypedAll),
            // That nobody listens to an output is no reason to end.
            [STDOUT | STDERR | ERROR | RESIZE] => Ok(Said::Nothing),
            _ => Err("which channel ends is not said in one byte".to_owned()),
        },
        STDOUT | STDERR | ERROR => Err("this channel is not the client's".to_owned()),
        other => Err(format!("there is no channel {other}")),
    }
}

/// A message on a channel.
pub fn written(channel: u8, data: &[u8]) -> Bytes {
    let mut message = Vec::with_capacity(data.len() + 1);
    message.push(channel);
    message.extend_from_slice(data);
    message.into()
}

/// Why a command is over for its client.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It ended, or could not run to its end.
    Ended(ExecEnd),
    /// Who runs it may not any more.
    Forbidden(String),
    /// The proof of who runs it is good no longer.
    Unproven(&'static str),
    /// The server stops.
    Stopped,
    /// The client said something that means nothing.
    Misspoken(String),
    /// The client is gone.
    Gone,
}

impl End {
    /// What is said of it on the last channel.
    pub fn status(&self) -> Option<Value> {
        let failed = |code: StatusCode, reason: &str, message: &str| {
            status(
                "Failure",
                json!({
                    "reason": reason, "message": message, "code": code.as_u16(),
                    "details": { "causes": [{ "message": message }] },
                }),
            )
        };
        Some(match self {
            Self::Ended(ExecEnd { exit_code: Some(0), .. }) => status("Success", json!({})),
            Self::Ended(ExecEnd { exit_code: Some(code), .. }) => status(
                "Failure",
                json!({
                    "reason": "NonZeroExitCode",
                    "message": format!("command terminated with non-zero exit code: {code}"),
                    "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
                }),
            ),
            Self::Ended(ExecEnd { exit_code: None, problem }) => {
                let message = format!("the command did not run to its end: {problem}");
                failed(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
            }
            Self::Forbidden(why) => failed(StatusCode::FORBIDDEN, "Forbidden", why),
            Self::Unproven(why) => failed(StatusCode::UNAUTHORIZED, "Unauthorized", why),
            Self::Stopped => {
                let message = "the server stops, and the command with it";
                failed(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
            Self::Misspoken(why) => failed(StatusCode::BAD_REQUEST, "BadRequest", why),
            Self::Gone => return None,
        })
    }
}

fn status(word: &str, mut more: Value) -> Value {
    more["kind"] = json!("Status");
    more["apiVersion"] = json!("v1");
    more["metadata"] = json!({});
    more["status"] = json!(word);
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(protocol: Protocol, message: &[u8], expect: Result<Said, &str>) {
        let read = read(protocol, Bytes::copy_from_slice(message));
        match expect {
            Ok(said) => assert_eq!(read, Ok(said), "{message:?}"),
            Err(words) => {
                let problem = read.expect_err("it means nothing");
                assert!(problem.contains(words), "{message:?}: {problem}");
            }
        }
    }

    #[test]
    fn what_clients_say_is_read() {
        let (v4, v5) = (Protocol::V4, Protocol::V5);
        check(v4, b"", Ok(Said::Nothing));
        check(v4, b"\0", Ok(Said::Nothing));
        check(v4, b"\0ls\n", Ok(Said::Typed(Bytes::from_static(b"ls\n"))));
        let size = TerminalSize { rows: 24, columns: 80 };
        check(v4, b"\x04{\"Width\":80,\"Height\":24}", Ok(Said::Resized(size)));
        check(v4, b"\x04{\"Width\":-1,\"Height\":24}", Err("size of the terminal"));
        check(v4, b"\x04", Err("size of the terminal"));
        check(v5, &[255, 0], Ok(Said::TypedAll));
        check(v5, &[255, 1], Ok(Said::Nothing));
        check(v5, &[255], Err("not said in one byte"));
        check(v5, &[255, 9], Err("not said in one byte"));
        check(v4, &[255, 0], Err("no channel 255"));
        check(v5, b"\x01x", Err("not the client's"));
        check(v5, b"\x07x", Err("no channel 7"));
    }

    #[test]
    fn clients_find_the_exit_code_where_they_look_for_it() {
        let ended = |exit_code| End::Ended(ExecEnd { exit_code, problem: "no shell".into() });
        let said = |end: End| end.status().expect("something is said");
        assert_eq!(said(ended(Some(0)))["status"], "Success");
        let failed = said(ended(Some(42)));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        let cause = json!({ "reason": "ExitCode", "message": "42" });
        assert_eq!(failed["details"]["causes"], json!([cause]));
        assert_eq!(said(ended(None))["reason"], "InternalError");
        assert_eq!(said(End::Stopped)["code"], 503);
        assert_eq!(End::Gone.status(), None);
    }

    #[test]
    fn the_newer_protocol_is_known_by_its_name() {
        assert_eq!(Protocol::named("v5.channel.k8s.io"), Some(Protocol::V5));
        assert_eq!(Protocol::named("v4.channel.k8s.io"), Some(Protocol::V4));
        assert_eq!(Protocol::named("v4.base64.channel.k8s.io"), None);
    }
}

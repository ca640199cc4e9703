//! A connection to a daemon that speaks JSON over a Unix socket: requests with an `id`, answers with
//! the same `id`, in any order and without any framing but that of JSON itself.
//!
//! ```text
//!  call --> writer --> socket --> reader task: bytes --> values --> by id --> the call that waits
//! ```
//!
//! A connection that breaks fails the calls on it, and the next call makes a new one. Whoever needs to
//! know that the daemon may be another one now watches [`Link::generation`].
use crate::error::{Error, Result};
use parking_lot::Mutex;
use serde_json::Value;
use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// A daemon that takes longer for one call hangs.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer: a list of all devices of a large daemon has about a megabyte.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// What differs between the dialects.
pub trait Dialect: Send + Sync + 'static {
    /// The daemon's name, for messages.
    fn name(&self) -> &'static str;

    /// One request.
    fn request(&self, id: u64, method: &str, params: Value) -> Value;

    /// Methods to call first on a new connection, before anything else.
    fn greeting(&self) -> &'static [&'static str] {
        &[]
    }

    /// The result in an answer, or the error it stands for.
    fn answer(&self, method: &str, answer: Value) -> Result<Value>;
}

/// A way to a daemon, with a connection while there is one.
pub struct Link<D> {
    dialect: D,
    socket: PathBuf,
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
    generation: watch::Sender<u64>,
}

/// One connection.
struct Live {
    writer: tokio::sync::Mutex<(OwnedWriteHalf, u64)>,
    pending: Pending,
    broken: CancellationToken,
    _reader: JoinSet<()>,
}

impl<D: Dialect> Link<D> {
    pub fn new(dialect: D, socket: PathBuf) -> Self {
        Self {
            dialect,
            socket,
            live: tokio::sync::Mutex::default(),
            generation: watch::Sender::new(0),
        }
    }

    /// Goes up with every connection.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Calls a method. If the connection broke, it is made again and the call repeated once, so a method
    /// that must not be carried out twice has to notice that itself.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        for last in [false, true] {
            let live = self.live().await?;
            match self.call_on(&live, method, params.clone()).await {
                Ok(answer) => return self.dialect.answer(method, answer),
                Err(error) if last => return Err(error),
                Err(_) => self.drop_connection(&live).await,
            }
        }
        Err(self.unavailable("it closes every connection"))
    }

    fn unavailable(&self, reason: impl std::fmt::Display) -> Error {
        let (name, socket) = (self.dialect.name(), self.socket.display());
        Error::Unavailable(format!("{name} at {socket} does not answer: {reason}"))
    }

    async fn call_on(&self, live: &Live, method: &str, params: Value) -> Result<Value> {
        let (answer, answered) = oneshot::channel();
        {
            let mut writer = live.writer.lock().await;
            writer.1 += 1;
            let id = writer.1;
            live.pending.lock().insert(id, answer);
            let mut text = self.dialect.request(id, method, params).to_string();
            text.push('\n');
            let sent = writer.0.write_all(text.as_bytes()).await;
            sent.map_err(|error| self.unavailable(error))?;
        }
        let waited = live.broken.run_until_cancelled(answered);
        match tokio::time::timeout(CALL_TIMEOUT, waited).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(_) => Err(self.unavailable("the connection was closed")),
            Err(_) => Err(self.unavailable(format!("{method} takes more than {CALL_TIMEOUT:?}"))),
        }
    }

    /// The connection, made if there is none.
    async fn live(&self) -> Result<Arc<Live>> {
        let mut slot = self.live.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.broken.is_cancelled()) {
            return Ok(live.clone());
        }
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.unavailable(error))?;
        let (reader, writer) = stream.into_split();
        let (pending, broken) = (Pending::default(), CancellationToken::new());
        let mut reading = JoinSet::new();
        reading.spawn(read(reader, pending.clone(), broken.clone()));
        let writer = tokio::sync::Mutex::new((writer, 0));
        let live = Arc::new(Live { writer, pending, broken, _reader: reading });
        for method in self.dialect.greeting() {
            let answer = self.call_on(&live, method, Value::Object(Default::default())).await?;
            self.dialect.answer(method, answer)?;
        }
        *slot = Some(live.clone());
        self.generation.send_modify(|generation| *generation += 1);
        Ok(live)
    }

    async fn drop_connection(&self, broken: &Arc<Live>) {
        let mut slot = self.live.lock().await;
        if slot.as_ref().is_some_and(|live| Arc::ptr_eq(live, broken)) {
            *slot = None;
        }
    }
}

/// Reads values until the connection ends, and gives each to the call that waits for it.
async fn read(mut reader: OwnedReadHalf, pending: Pending, broken: CancellationToken) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = reader.read(&mut bytes).await {
        let Ok(values) = decoder.push(&bytes[..count]) else { break };
        for value in values {
            let waiting = value.get("id").and_then(Value::as_u64);
            // What has no id is a greeting or an event; nobody waits for those.
            let waiting = waiting.and_then(|id| pending.lock().remove(&id));
            if let Some(waiting) = waiting {
                // The caller may have given up.
                let _ = waiting.send(value);
            }
        }
    }
    broken.cancel();
}

/// Cuts a stream of bytes into JSON values, wherever its packets begin and end.
#[derive(Default)]
struct Decoder {
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct NoJson;

impl Decoder {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Value>, NoJson> {
        self.bytes.extend_from_slice(bytes);
        let mut values = Vec::new();
        let mut stream = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<Value>();
        loop {
            match stream.next() {
                Some(Ok(value)) => values.push(value),
                Some(Err(error)) if error.is_eof() => break,
                Some(Err(_)) => return Err(NoJson),
                None => break,
            }
        }
        let done = stream.byte_offset();
        self.bytes.drain(..done);
        if self.bytes.len() > ANSWER_BYTES_MAX { Err(NoJson) } else { Ok(values) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, NoJson};
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        /// However the bytes are cut, the values are the same.
        #[test]
        fn packets_do_not_matter(cuts in proptest::collection::vec(0usize..80, 0..6)) {
            let text = "{\"id\":1,\"result\":\"a}{\\\"\"} {\"id\":2}\n{\"id\":3,\"result\":[1,{\"b\":null}]}";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::default();
            let mut values = Vec::new();
            for pair in cuts.windows(2) {
                values.extend(decoder.push(&text.as_bytes()[pair[0]..pair[1]]).unwrap());
            }
            let expect = [
                json!({"id": 1, "result": "a}{\""}),
                json!({"id": 2}),
                json!({"id": 3, "result": [1, {"b": null}]}),
            ];
            prop_assert_eq!(values, expect);
        }
    }

    #[test]
    fn what_is_no_json_ends_the_connection() {
        assert_eq!(Decoder::default().push(b"{\"a\":1}nonsense"), Err(NoJson));
    }
}

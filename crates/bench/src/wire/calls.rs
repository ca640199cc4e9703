//! Unary calls, many on one connection.
use super::Target;
use super::connection::{Connection, Frame, PREFIX_BYTES, flag, kind};
use anyhow::{Context as _, ensure};
use bytes::BytesMut;
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// What is read at once.
const READ_BYTES: usize = 64 << 10;

/// One connection.
pub struct Wire<S> {
    connection: Connection<S>,
    head: Vec<u8>,
    next_stream: u32,
    open: HashMap<u32, Open>,
    latencies: Vec<Duration>,
}

/// A call that is not answered yet.
struct Open {
    begun: Instant,
    answer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(io: S, target: &Target<'_>) -> anyhow::Result<Self> {
        let connection = Connection::new(io, READ_BYTES);
        let (open, latencies) = (HashMap::new(), Vec::new());
        Ok(Self { connection, head: target.encoded()?, next_stream: 1, open, latencies })
    }

    /// Calls with what `message` appends, so many at once, until it has nothing more. Tells how long each
    /// call took.
    pub async fn call_all(
        mut self,
        at_once: usize,
        mut message: impl FnMut(&mut BytesMut) -> bool,
        mut check: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Duration>> {
        let (mut more, mut next) = (true, BytesMut::new());
        loop {
            while more && self.open.len() < at_once {
                if next.is_empty() {
                    more = message(&mut next);
                }
                if !more || self.connection.window < (next.len() + PREFIX_BYTES) as i64 {
                    break;
                }
                self.begin(&next)?;
                next.clear();
            }
            if !more && self.open.is_empty() {
                return Ok(self.latencies);
            }
            self.connection.send().await?;
            self.connection.receive().await?;
            while let Some((frame, payload)) = self.connection.next()? {
                self.take(frame, &payload, &mut check)?;
            }
        }
    }

    fn begin(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.connection.write_head(&self.head, stream);
        self.connection.write_message(message, flag::END_STREAM, stream)?;
        self.open.insert(stream, Open { begun: Instant::now(), answer: Vec::new() });
        Ok(())
    }

    fn take(
        &mut self,
        frame: Frame,
        payload: &[u8],
        check: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match frame.kind {
            kind::DATA => {
                ensure!(!frame.has(flag::END_STREAM), "an end without trailers");
                let open = self.open.get_mut(&frame.stream).context("data of no call")?;
                open.answer.extend_from_slice(payload);
            }
            kind::HEADERS if frame.has(flag::END_STREAM) => {
                let open = self.open.remove(&frame.stream).context("an end of no call")?;
                check(whole(&open.answer).with_context(|| {
                    format!("a call failed: {}", String::from_utf8_lossy(payload))
                })?)?;
                self.latencies.push(open.begun.elapsed());
            }
            _ => {}
        }
        Ok(())
    }
}

/// The message in an answer.
fn whole(answer: &[u8]) -> anyhow::Result<&[u8]> {
    let (prefix, message) = answer.split_at_checked(PREFIX_BYTES).context("no message")?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    ensure!(length == message.len(), "{} bytes of {length}", message.len());
    Ok(message)
}

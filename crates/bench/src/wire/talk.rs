//! One stream of messages in both directions, on a connection of its own.
use super::Target;
use super::connection::{Connection, PREFIX_BYTES, STREAM_WINDOW, flag, kind, more};
use anyhow::ensure;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

/// The only stream.
const STREAM: u32 = 1;
/// What is read at once: there may be thousands of connections, each with little to say.
const READ_BYTES: usize = 4 << 10;

pub struct Talk<S> {
    connection: Connection<S>,
    /// How much of what we sent counts against the window of the stream.
    sent: i64,
    /// By how much that window has grown since it was opened.
    grown: i64,
    /// Of what came, since the server was last told that there is room again.
    taken: u32,
    /// What came and is not a whole message yet.
    came: BytesMut,
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    pub fn new(io: S, target: &Target<'_>) -> anyhow::Result<Self> {
        let mut connection = Connection::new(io, READ_BYTES);
        connection.write_head(&target.encoded()?, STREAM);
        let (sent, grown, taken) = (0, 0, 0);
        Ok(Self { connection, sent, grown, taken, came: BytesMut::new(), ended: false })
    }

    /// Sends a message. A server that leaves no room for it is an error: what is measured here says little.
    pub async fn say(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let length = (message.len() + PREFIX_BYTES) as i64;
        let room = self.connection.stream_window + self.grown - self.sent;
        ensure!(length <= room.min(self.connection.window), "no room for {length} bytes");
        self.sent += length;
        self.connection.write_message(message, 0, STREAM)?;
        self.connection.send().await
    }

    /// The next message; `None` when the server has ended the stream.
    pub async fn hear(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(message) = self.whole() {
                return Ok(Some(message));
            }
            if self.ended {
                ensure!(self.came.is_empty(), "the stream ended within a message");
                return Ok(None);
            }
            self.connection.send().await?;
            self.connection.receive().await?;
            self.take()?;
        }
    }

    fn take(&mut self) -> anyhow::Result<()> {
        while let Some((frame, payload)) = self.connection.next()? {
            self.ended |=
                matches!(frame.kind, kind::DATA | kind::HEADERS) && frame.has(flag::END_STREAM);
            match frame.kind {
                kind::DATA => {
                    self.came.extend_from_slice(&payload);
                    self.taken += u32::try_from(payload.len())?;
                }
                kind::WINDOW_UPDATE => self.grown += more(&payload)?,
                _ => {}
            }
        }
        if STREAM_WINDOW / 2 < self.taken {
            self.connection.write_window(STREAM, std::mem::take(&mut self.taken));
        }
        Ok(())
    }

    fn whole(&mut self) -> Option<Bytes> {
        let length = self.came.get(1..PREFIX_BYTES)?;
        let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
        if self.came.len() < PREFIX_BYTES + length {
            return None;
        }
        Some(self.came.split_to(PREFIX_BYTES + length).split_off(PREFIX_BYTES).freeze())
    }
}

//! Frames, and what concerns a whole connection.
use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame.
const HEAD_BYTES: usize = 9;
/// Whether a message is compressed, and its length.
pub const PREFIX_BYTES: usize = 5;
/// What a server may send ahead, per stream and in all.
pub const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// What we may send ahead until the server says otherwise.
pub const FIRST_WINDOW: i64 = 65_535;
/// The longest message that is sent: one frame, as long as every server takes them.
const MESSAGE_BYTES_MAX: usize = (16 << 10) - PREFIX_BYTES;

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RESET: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GO_AWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
}

pub mod flag {
    /// Of data and heads; the same bit says of settings and pings that they are an answer.
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
}

/// How much a stream may send before the server has said anything of it.
const INITIAL_WINDOW_SETTING: u16 = 4;

#[derive(Clone, Copy)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl Frame {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub struct Connection<S> {
    io: S,
    /// What is read at once.
    read_bytes: usize,
    read: BytesMut,
    out: BytesMut,
    /// How much the server takes now, all streams together.
    pub window: i64,
    /// How much it takes of a stream of which it has said nothing yet.
    pub stream_window: i64,
    /// Of what it sent, since it was last told that there is room again.
    taken: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(io: S, read_bytes: usize) -> Self {
        let mut out = BytesMut::from(PREFACE);
        head(&mut out, 12, kind::SETTINGS, 0, 0);
        for (setting, value) in [(2_u16, 0), (INITIAL_WINDOW_SETTING, STREAM_WINDOW)] {
            out.put_u16(setting);
            out.put_u32(value);
        }
        window_update(&mut out, 0, CONNECTION_WINDOW);
        let (window, stream_window) = (FIRST_WINDOW, FIRST_WINDOW);
        let read = BytesMut::new();
        Self { io, read_bytes, read, out, window, stream_window, taken: 0 }
    }

    /// Sends what was written.
    pub async fn send(&mut self) -> anyhow::Result<()> {
        self.io.write_all_buf(&mut self.out).await?;
        Ok(self.io.flush().await?)
    }

    /// Waits until more has come. Nothing is lost when it is dropped while it waits.
    pub async fn receive(&mut self) -> anyhow::Result<()> {
        self.read.reserve(self.read_bytes);
        ensure!(self.io.read_buf(&mut self.read).await? != 0, "the server closed");
        Ok(())
    }

    pub fn write_head(&mut self, block: &[u8], stream: u32) {
        head(&mut self.out, block.len(), kind::HEADERS, flag::END_HEADERS, stream);
        self.out.extend_from_slice(block);
    }

    pub fn write_message(&mut self, message: &[u8], flags: u8, stream: u32) -> anyhow::Result<()> {
        let length = message.len();
        ensure!(length <= MESSAGE_BYTES_MAX, "a message of {length} bytes");
        self.window -= (length + PREFIX_BYTES) as i64;
        head(&mut self.out, length + PREFIX_BYTES, kind::DATA, flags, stream);
        self.out.put_u8(0);
        self.out.put_u32(u32::try_from(length)?);
        self.out.extend_from_slice(message);
        Ok(())
    }

    pub fn write_window(&mut self, stream: u32, more: u32) {
        window_update(&mut self.out, stream, more);
    }

    /// The next frame of a stream among what has come. Those of the connection are answered here.
    pub fn next(&mut self) -> anyhow::Result<Option<(Frame, BytesMut)>> {
        while let Some((frame, payload)) = self.split() {
            match frame.kind {
                kind::DATA => {
                    ensure!(!frame.has(flag::PADDED), "padding is not read here");
                    self.make_room(u32::try_from(payload.len())?);
                }
                kind::SETTINGS if !frame.has(flag::ACK) => {
                    self.settle(&payload);
                    head(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
                }
                kind::PING if !frame.has(flag::ACK) => {
                    head(&mut self.out, payload.len(), kind::PING, flag::ACK, 0);
                    self.out.extend_from_slice(&payload);
                }
                kind::WINDOW_UPDATE if frame.stream == 0 => self.window += more(&payload)?,
                // A server that has said everything may say that it needs no more, which is no error.
                kind::RESET if payload[..] != [0; 4] => bail!("a stream was reset: {payload:?}"),
                kind::GO_AWAY => bail!("the server ends: {}", String::from_utf8_lossy(&payload)),
                _ => {}
            }
            if frame.stream != 0 {
                return Ok(Some((frame, payload)));
            }
        }
        Ok(None)
    }

    fn split(&mut self) -> Option<(Frame, BytesMut)> {
        let start = self.read.get(..HEAD_BYTES)?;
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]) as usize;
        let stream = u32::from_be_bytes([start[5] & 0x7f, start[6], start[7], start[8]]);
        let frame = Frame { kind: start[3], flags: start[4], stream };
        if self.read.len() < HEAD_BYTES + length {
            return None;
        }
        self.read.advance(HEAD_BYTES);
        Some((frame, self.read.split_to(length)))
    }

    fn settle(&mut self, mut settings: &[u8]) {
        while let (Ok(setting), Ok(value)) = (settings.try_get_u16(), settings.try_get_u32()) {
            if setting == INITIAL_WINDOW_SETTING {
                self.stream_window = i64::from(value);
            }
        }
    }

    fn make_room(&mut self, taken: u32) {
        self.taken += taken;
        if STREAM_WINDOW < self.taken {
            window_update(&mut self.out, 0, std::mem::take(&mut self.taken));
        }
    }
}

/// How much a window has grown.
pub fn more(payload: &[u8]) -> anyhow::Result<i64> {
    let more: [u8; 4] = payload.try_into().context("a window of four bytes")?;
    Ok(i64::from(u32::from_be_bytes(more)))
}

fn head(out: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    out.put_uint(length as u64, 3);
    out.put_slice(&[kind, flags]);
    out.put_u32(stream);
}

fn window_update(out: &mut BytesMut, stream: u32, more: u32) {
    head(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.put_u32(more);
}

//! Unary calls at the least cost to the processors that the servers need too.
//!
//! A library for HTTP/2 takes more for a call than some of the servers that are measured. So frames are
//! written and read as bytes here, as far as a client that sends the same head every time has to know
//! them. What comes back in heads is not decoded: a call has succeeded if a whole message came and then
//! the end of the stream in trailers, because an answer of gRPC that fails has no message. Statuses in
//! words are what [`crate::grpc`] is for, which is to be asked once before.
use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BufMut as _, BytesMut};
use std::collections::HashMap;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame.
const HEAD_BYTES: usize = 9;
/// Whether a message is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// What a server may send ahead, per stream and in all.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// What we may send ahead until the server says otherwise.
const FIRST_WINDOW: i64 = 65_535;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;

mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RESET: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GO_AWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
}

mod flag {
    /// Of data and heads; the same bit says of settings and pings that they are an answer.
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
}

/// What is called, the same for all calls of a connection.
pub struct Target<'a> {
    pub scheme: &'a str,
    pub authority: &'a str,
    pub path: &'a str,
    pub metadata: &'a [(&'a str, &'a str)],
}

impl Target<'_> {
    /// As HPACK has it, every field by itself, so that all heads are the same bytes.
    fn encoded(&self) -> Vec<u8> {
        let mut head = Vec::new();
        let pairs = [
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", self.path),
            (":authority", self.authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in pairs.iter().chain(self.metadata) {
            head.push(0);
            for text in [name, value] {
                head.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
                head.extend_from_slice(text.as_bytes());
            }
        }
        head
    }
}

/// One connection.
pub struct Wire<S> {
    io: S,
    head: Vec<u8>,
    next_stream: u32,
    /// How much the server takes now.
    window: i64,
    /// Of what it sent, since it was last told that there is room again.
    taken: u32,
    read: BytesMut,
    out: BytesMut,
    open: HashMap<u32, Open>,
    latencies: Vec<Duration>,
}

/// A call that is not answered yet.
struct Open {
    begun: Instant,
    answer: Vec<u8>,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(io: S, target: &Target<'_>) -> anyhow::Result<Self> {
        let longest = target.metadata.iter().flat_map(|(name, value)| [name.len(), value.len()]);
        let longest = longest.chain([target.authority.len(), target.path.len()]).max();
        ensure!(longest < Some(127), "a longer name needs another encoding");
        let mut out = BytesMut::from(PREFACE);
        head(&mut out, 12, kind::SETTINGS, 0, 0);
        for (setting, value) in [(2_u16, 0), (4, STREAM_WINDOW)] {
            out.put_u16(setting);
            out.put_u32(value);
        }
        window_update(&mut out, CONNECTION_WINDOW);
        Ok(Self {
            io,
            head: target.encoded(),
            next_stream: 1,
            window: FIRST_WINDOW,
            taken: 0,
            read: BytesMut::with_capacity(READ_BYTES),
            out,
            open: HashMap::new(),
            latencies: Vec::new(),
        })
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
                if !more || self.window < (next.len() + PREFIX_BYTES) as i64 {
                    break;
                }
                self.begin(&next)?;
                next.clear();
            }
            if !more && self.open.is_empty() {
                return Ok(self.latencies);
            }
            self.io.write_all_buf(&mut self.out).await?;
            self.io.flush().await?;
            self.read.reserve(READ_BYTES);
            ensure!(self.io.read_buf(&mut self.read).await? != 0, "the server closed");
            self.take_frames(&mut check)?;
        }
    }

    fn begin(&mut self, message: &[u8]) -> anyhow::Result<()> {
        let (stream, length) = (self.next_stream, message.len() + PREFIX_BYTES);
        ensure!(length as i64 <= FIRST_WINDOW.min(16 << 10), "a message of {length} bytes");
        self.next_stream += 2;
        self.window -= length as i64;
        head(&mut self.out, self.head.len(), kind::HEADERS, flag::END_HEADERS, stream);
        self.out.extend_from_slice(&self.head);
        head(&mut self.out, length, kind::DATA, flag::END_STREAM, stream);
        self.out.put_u8(0);
        self.out.put_u32(u32::try_from(message.len())?);
        self.out.extend_from_slice(message);
        self.open.insert(stream, Open { begun: Instant::now(), answer: Vec::new() });
        Ok(())
    }

    fn take_frames(
        &mut self,
        check: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while let Some(start) = self.read.get(..HEAD_BYTES) {
            let length = u32::from_be_bytes([0, start[0], start[1], start[2]]) as usize;
            let stream = u32::from_be_bytes([start[5] & 0x7f, start[6], start[7], start[8]]);
            let frame = Frame { kind: start[3], flags: start[4], stream };
            if self.read.len() < HEAD_BYTES + length {
                break;
            }
            self.read.advance(HEAD_BYTES);
            let payload = self.read.split_to(length);
            self.take(&frame, &payload, check)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        frame: &Frame,
        payload: &[u8],
        check: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let has = |flag| frame.flags & flag != 0;
        match frame.kind {
            kind::DATA => {
                ensure!(!has(flag::END_STREAM) && !has(flag::PADDED), "an end without trailers");
                self.make_room(u32::try_from(payload.len())?);
                let open = self.open.get_mut(&frame.stream).context("data of no call")?;
                open.answer.extend_from_slice(payload);
            }
            kind::HEADERS if has(flag::END_STREAM) => {
                let open = self.open.remove(&frame.stream).context("an end of no call")?;
                check(whole(&open.answer).with_context(|| {
                    format!("a call failed: {}", String::from_utf8_lossy(payload))
                })?)?;
                self.latencies.push(open.begun.elapsed());
            }
            kind::SETTINGS if !has(flag::ACK) => {
                head(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
            }
            kind::PING if !has(flag::ACK) => {
                head(&mut self.out, payload.len(), kind::PING, flag::ACK, 0);
                self.out.extend_from_slice(payload);
            }
            kind::WINDOW_UPDATE if frame.stream == 0 => {
                let more: [u8; 4] = payload.try_into().context("a window of four bytes")?;
                self.window += i64::from(u32::from_be_bytes(more));
            }
            kind::RESET => bail!("the server reset a stream: {payload:?}"),
            kind::GO_AWAY => bail!("the server ends: {}", String::from_utf8_lossy(payload)),
            _ => {}
        }
        Ok(())
    }

    fn make_room(&mut self, taken: u32) {
        self.taken += taken;
        if STREAM_WINDOW < self.taken {
            window_update(&mut self.out, std::mem::take(&mut self.taken));
        }
    }
}

/// The message in an answer.
fn whole(answer: &[u8]) -> anyhow::Result<&[u8]> {
    let (prefix, message) = answer.split_at_checked(PREFIX_BYTES).context("no message")?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    ensure!(length == message.len(), "{} bytes of {length}", message.len());
    Ok(message)
}

fn head(out: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    out.put_uint(length as u64, 3);
    out.put_slice(&[kind, flags]);
    out.put_u32(stream);
}

fn window_update(out: &mut BytesMut, more: u32) {
    head(out, 4, kind::WINDOW_UPDATE, 0, 0);
    out.put_u32(more);
}

#[cfg(test)]
mod tests;

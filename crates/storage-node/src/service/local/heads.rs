//! Reads the frames of a client and writes the heads of its requests anew.
//!
//! The table of header fields that a client builds up ends here: heads leave as plain literals, which
//! need none, so nothing that is changed in them can bring two tables apart.
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::uri::Authority;
use loona_hpack::Decoder;
use std::io;

/// What an HTTP/2 client says first.
const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
/// The longest frame while the server asks for no other, which ours does not.
const FRAME_MAX_BYTES: usize = 16 << 10;
/// The table of fields a client may use while the server asks for no other.
const TABLE_MAX_BYTES: usize = 4096;
/// A head as it came and as it is written anew. The server takes 16 KiB, and answers somewhat more with a
/// proper refusal; here is only what protects memory.
const HEAD_MAX_BYTES: usize = 64 << 10;

const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// What stands for every name that is not one of a host.
const LOCAL: &[u8] = b"localhost";

/// What is known of one client's frames.
pub struct Heads {
    /// How much of what comes next passes as it is.
    passing: usize,
    /// A head whose last frame has not come yet.
    open: Option<Head>,
    fields: Decoder<'static>,
}

struct Head {
    stream: u32,
    end_stream: bool,
    block: BytesMut,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Bytes,
}

impl Default for Heads {
    fn default() -> Self {
        let mut fields = Decoder::new();
        fields.set_max_allowed_table_size(TABLE_MAX_BYTES);
        Self { passing: PREFACE_BYTES, open: None, fields }
    }
}

impl Heads {
    /// Moves the next piece of `input` to `output`: a part of a frame, or one head. Returns whether it
    /// took anything; if not, it needs more input.
    pub fn step(&mut self, input: &mut BytesMut, output: &mut BytesMut) -> io::Result<bool> {
        if 0 < self.passing {
            let length = self.passing.min(input.len());
            output.extend_from_slice(&input.split_to(length));
            self.passing -= length;
            return Ok(0 < length);
        }
        let Some((header, _)) = input.split_at_checked(FRAME_HEADER_BYTES) else {
            return Ok(false);
        };
        let mut header = Bytes::copy_from_slice(header);
        let length = header.get_uint(3) as usize;
        let (kind, flags, stream) = (header.get_u8(), header.get_u8(), header.get_u32());
        if !matches!(kind, HEADERS | CONTINUATION) {
            if self.open.is_some() {
                return Err(broken("a head is interrupted by another frame"));
            }
            self.passing = FRAME_HEADER_BYTES + length;
            return Ok(true);
        }
        if FRAME_MAX_BYTES < length {
            return Err(broken("a frame is longer than the server takes"));
        }
        if input.len() < FRAME_HEADER_BYTES + length {
            return Ok(false);
        }
        input.advance(FRAME_HEADER_BYTES);
        let payload = input.split_to(length).freeze();
        self.part(Frame { kind, flags, stream, payload }, output)?;
        Ok(true)
    }

    /// One frame of a head.
    fn part(&mut self, frame: Frame, output: &mut BytesMut) -> io::Result<()> {
        let Frame { kind, flags, stream, payload } = frame;
        let mut head = match (self.open.take(), kind) {
            (None, HEADERS) => {
                let end_stream = flags & END_STREAM != 0;
                let block = BytesMut::from(&block(flags, payload)?[..]);
                Head { stream, end_stream, block }
            }
            (Some(mut head), CONTINUATION) if head.stream == stream => {
                head.block.extend_from_slice(&payload);
                head
            }
            _ => return Err(broken("the frames of a head are not in order")),
        };
        if HEAD_MAX_BYTES < head.block.len() {
            return Err(broken("a head is too long"));
        }
        if flags & END_HEADERS == 0 {
            self.open = Some(head);
            return Ok(());
        }
        head.block = self.anew(&head.block)?;
        write(head, output);
        Ok(())
    }

    /// The same fields as literals, with an authority that the server takes.
    fn anew(&mut self, block: &[u8]) -> io::Result<BytesMut> {
        let mut anew = BytesMut::new();
        let decoded = self.fields.decode_with_cb(block, |name, value| {
            // What is too long is not kept; the decoder goes on because its table must stay right.
            if HEAD_MAX_BYTES < anew.len() {
                return;
            }
            let odd = &name[..] == b":authority" && Authority::try_from(&value[..]).is_err();
            // A literal that stays in no table, with a name of its own.
            anew.put_u8(0);
            literal(&name, &mut anew);
            literal(if odd { LOCAL } else { &value }, &mut anew);
        });
        decoded.map_err(|error| broken(&format!("a head cannot be read: {error}")))?;
        if HEAD_MAX_BYTES < anew.len() {
            return Err(broken("a head is too long"));
        }
        Ok(anew)
    }
}

/// The fields in a HEADERS frame, without what may stand around them.
fn block(flags: u8, mut payload: Bytes) -> io::Result<Bytes> {
    let short = || broken("a frame is shorter than it says");
    let padding =
        if flags & PADDED == 0 { 0 } else { payload.try_get_u8().map_err(|_| short())? };
    let priority = if flags & PRIORITY == 0 { 0 } else { 5 };
    let end = payload.len().checked_sub(usize::from(padding)).ok_or_else(short)?;
    if end < priority {
        return Err(short());
    }
    Ok(payload.slice(priority..end))
}

/// A string of HPACK as it is: its length in a prefix of 7 bits, and its bytes.
fn literal(text: &[u8], output: &mut BytesMut) {
    const PREFIX: usize = 0x7f;
    if text.len() < PREFIX {
        output.put_u8(text.len() as u8);
    } else {
        output.put_u8(PREFIX as u8);
        let mut rest = text.len() - PREFIX;
        while 0x80 <= rest {
            output.put_u8(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        output.put_u8(rest as u8);
    }
    output.extend_from_slice(text);
}

/// A head in as few frames as it needs.
fn write(head: Head, output: &mut BytesMut) {
    let Head { stream, end_stream, mut block } = head;
    let (mut kind, mut flags) = (HEADERS, if end_stream { END_STREAM } else { 0 });
    loop {
        let part = block.split_to(block.len().min(FRAME_MAX_BYTES));
        if block.is_empty() {
            flags |= END_HEADERS;
        }
        output.put_uint(part.len() as u64, 3);
        output.put_u8(kind);
        output.put_u8(flags);
        output.put_u32(stream);
        output.extend_from_slice(&part);
        if block.is_empty() {
            return;
        }
        (kind, flags) = (CONTINUATION, 0);
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

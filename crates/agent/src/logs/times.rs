//! When the bytes of a text were written: a file of its own beside it.
//!
//! ```text
//!   mark   0   offset + 1   milliseconds since 1970, + 1   check      stands alone
//!   step       offset       milliseconds                              both since what is before it
//! ```
//! Numbers are written seven bits to a byte, the lowest first. Neither number of a step is ever zero, and
//! no number ends with a zero byte, so a zero byte begins a mark and nothing else does: what is torn or
//! damaged costs the times up to the next mark, and never the text.
use crate::model::UnixMillis;

/// Steps before there is a mark again: what one damaged byte can cost. A mark has about ten bytes, a step
/// three.
const STEPS_MAX: u32 = 256;

/// What an offset may be at most; no text is that long, so a larger one is damage.
const OFFSET_MAX: u64 = u32::MAX as u64;

/// The bytes of the longest number.
const NUMBER_BYTES_MAX: usize = 10;

/// From this byte of the text on, this was the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub offset: u64,
    pub time: UnixMillis,
}

/// Turns records into bytes. A new one begins with a mark.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    last: Option<Record>,
    steps: u32,
}

impl Encoder {
    /// Whether the last record says this time already.
    pub(crate) fn says(&self, time: UnixMillis) -> bool {
        self.last.is_some_and(|last| last.time == time)
    }

    /// Whether nothing was recorded yet.
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none()
    }

    pub(crate) fn encode(&mut self, record: Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.last.and_then(|last| step(last, record)).filter(|_| self.steps < STEPS_MAX) {
            Some((offset, millis)) => {
                self.steps += 1;
                number(offset, &mut bytes);
                number(millis, &mut bytes);
            }
            None => {
                self.steps = 0;
                bytes.push(0);
                number(record.offset + 1, &mut bytes);
                number(record.time.0 + 1, &mut bytes);
                bytes.push(check(&bytes));
            }
        }
        self.last = Some(record);
        bytes
    }
}

/// What to add to the last record; nothing where time or text did not move forward.
fn step(last: Record, next: Record) -> Option<(u64, u64)> {
    let offset = next.offset.checked_sub(last.offset).filter(|step| *step != 0);
    let millis = next.time.0.checked_sub(last.time.0).filter(|step| *step != 0);
    offset.zip(millis)
}

fn number(mut number: u64, bytes: &mut Vec<u8>) {
    while 0x7f < number {
        bytes.push(0x80 | u8::try_from(number & 0x7f).unwrap_or_default());
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
}

/// Never zero.
fn check(bytes: &[u8]) -> u8 {
    let sum: u32 = bytes.iter().copied().map(u32::from).sum();
    u8::try_from(sum % 255).unwrap_or_default() + 1
}

/// Turns bytes into records, as far as they make sense.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// What is not yet a whole record.
    rest: Vec<u8>,
    /// Nothing while a mark is looked for.
    last: Option<Record>,
}

/// What stands at the beginning of some bytes.
enum Found {
    Record(Record, usize),
    /// There may be more of it later.
    Half,
    Damage,
}

impl Decoder {
    /// Adds what these bytes say. The offsets of all records grow: what is said later counts.
    pub(crate) fn decode(&mut self, bytes: &[u8], records: &mut Vec<Record>) {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(first) = self.rest.get(at) {
            let rest = &self.rest[at..];
            let found = match (*first, self.last) {
                (0, _) => mark(rest),
                (_, Some(last)) => stepped(last, rest),
                (_, None) => Found::Damage,
            };
            match found {
                Found::Half => break,
                Found::Record(record, len) => {
                    at += len;
                    self.last = Some(record);
                    while records.pop_if(|last| record.offset <= last.offset).is_some() {}
                    records.push(record);
                }
                Found::Damage => {
                    self.last = None;
                    let skipped = rest[1..].iter().position(|byte| *byte == 0);
                    at += skipped.map_or(rest.len(), |skipped| skipped + 1);
                }
            }
        }
        self.rest.drain(..at);
    }
}

fn mark(bytes: &[u8]) -> Found {
    let (offset, more) = match read_number(&bytes[1..]) {
        Ok(Some((offset, len))) => (offset, 1 + len),
        Ok(None) => return Found::Half,
        Err(Damaged) => return Found::Damage,
    };
    let (millis, len) = match read_number(&bytes[more..]) {
        Ok(Some((millis, len))) => (millis, more + len),
        Ok(None) => return Found::Half,
        Err(Damaged) => return Found::Damage,
    };
    let record = Record { offset: offset - 1, time: UnixMillis(millis - 1) };
    match bytes.get(len) {
        None => Found::Half,
        Some(said) if *said != check(&bytes[..len]) => Found::Damage,
        Some(_) if OFFSET_MAX < record.offset => Found::Damage,
        Some(_) => Found::Record(record, len + 1),
    }
}

fn stepped(last: Record, bytes: &[u8]) -> Found {
    let (offset, more) = match read_number(bytes) {
        Ok(Some(found)) => found,
        Ok(None) => return Found::Half,
        Err(Damaged) => return Found::Damage,
    };
    let (millis, len) = match read_number(&bytes[more..]) {
        Ok(Some(found)) => found,
        Ok(None) => return Found::Half,
        Err(Damaged) => return Found::Damage,
    };
    let offset = last.offset.checked_add(offset).filter(|offset| *offset <= OFFSET_MAX);
    let millis = last.time.0.checked_add(millis);
    match offset.zip(millis) {
        Some((offset, millis)) => {
            Found::Record(Record { offset, time: UnixMillis(millis) }, more + len)
        }
        None => Found::Damage,
    }
}

struct Damaged;

/// A number that is not zero, and its length; nothing if it is not whole.
fn read_number(bytes: &[u8]) -> Result<Option<(u64, usize)>, Damaged> {
    let mut number: u64 = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == 0 || NUMBER_BYTES_MAX <= at {
            return Err(Damaged);
        }
        // The tenth byte has room for one bit.
        if at + 1 == NUMBER_BYTES_MAX && 1 < *byte {
            return Err(Damaged);
        }
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((number, at + 1)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

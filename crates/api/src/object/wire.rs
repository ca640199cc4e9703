//! Walks over the bytes of messages without decoding them.
use prost::encoding::{WireType, decode_key, decode_varint};

/// One field of a message.
pub(crate) struct Field<'a> {
    pub number: u32,
    pub wire: WireType,
    pub whole: &'a [u8],
    pub content: &'a [u8],
}

/// The next field and the rest; `Some(None)` at the end, `None` where the bytes are not understood.
pub(crate) fn next<'a>(rest: &mut &'a [u8]) -> Option<Option<Field<'a>>> {
    let from = *rest;
    if from.is_empty() {
        return Some(None);
    }
    let mut at = from;
    let (number, wire) = decode_key(&mut at).ok()?;
    let length = match wire {
        WireType::Varint => {
            let before = at.len();
            let mut value = at;
            decode_varint(&mut value).ok()?;
            before - value.len()
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(&mut at).ok()?).ok()?,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (content, after) = at.split_at_checked(length)?;
    *rest = after;
    let whole = &from[..from.len() - after.len()];
    Some(Some(Field { number, wire, whole, content }))
}

/// Every value at the end of a way of field numbers through messages. Bytes that are not understood
/// end the walk through the message that they are in.
pub(crate) fn each<'a>(bytes: &'a [u8], way: &[u32], found: &mut impl FnMut(&'a [u8])) {
    let Some((first, way)) = way.split_first() else { return found(bytes) };
    let mut rest = bytes;
    while let Some(Some(field)) = next(&mut rest) {
        if field.number == *first && field.wire == WireType::LengthDelimited {
            each(field.content, way, found);
        }
    }
}

/// The same, in their order.
pub(crate) fn all<'a>(bytes: &'a [u8], way: &[u32]) -> Vec<&'a [u8]> {
    let mut all = Vec::new();
    each(bytes, way, &mut |value| all.push(value));
    all
}

/// The text that an entry of a map of texts holds, if it is the one of this name.
pub(crate) fn of_entry<'a>(entry: &'a [u8], name: &str) -> Option<&'a str> {
    let (mut rest, mut key, mut value): (_, &[u8], &[u8]) = (entry, &[], &[]);
    while let Some(Some(field)) = next(&mut rest) {
        match field.number {
            1 => key = field.content,
            2 => value = field.content,
            _ => {}
        }
    }
    (key == name.as_bytes()).then(|| text(value))
}

/// Text, or nothing where it is none.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

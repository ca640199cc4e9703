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
///
/// Objects are walked through many times on their way: what nearly all fields are is told by their first bytes.
#[inline(always)]
pub(crate) fn next<'a>(rest: &mut &'a [u8]) -> Option<Option<Field<'a>>> {
    let from = *rest;
    // A text or a message with a small number, of a length of one byte or of two.
    let (key, head, length) = match *from {
        [key @ 8..=0x7f, length @ 0..=0x7f, ..] => (key, 2, usize::from(length)),
        [key @ 8..=0x7f, low, high @ 0..=0x7f, ..] => {
            (key, 3, usize::from(low & 0x7f) | usize::from(high) << 7)
        }
        _ => return next_of_any(rest),
    };
    if key & 7 != WireType::LengthDelimited as u8 {
        return next_of_any(rest);
    }
    let (whole, after) = from.split_at_checked(head + length)?;
    *rest = after;
    let (number, wire) = (u32::from(key >> 3), WireType::LengthDelimited);
    Some(Some(Field { number, wire, whole, content: &whole[head..] }))
}

fn next_of_any<'a>(rest: &mut &'a [u8]) -> Option<Option<Field<'a>>> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parts<'a> = Option<Option<(u32, WireType, &'a [u8], &'a [u8])>>;

    fn parts(found: Option<Option<Field<'_>>>) -> Parts<'_> {
        found.map(|field| field.map(|it| (it.number, it.wire, it.whole, it.content)))
    }

    proptest! {
        /// What is read in short is what is read in full, whatever the bytes are.
        #[test]
        fn short_fields_are_read_as_all_others(
            key in 0_u8..=0xff, length in 0_u8..=0xff, more in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let bytes = [[key, length].as_slice(), &more].concat();
            for bytes in [&bytes[..], &bytes[..2], &bytes[..1], &[]] {
                let (mut short, mut full) = (bytes, bytes);
                prop_assert_eq!(parts(next(&mut short)), parts(next_of_any(&mut full)));
                prop_assert_eq!(short, full);
            }
        }
    }
}

//! Changes what an encoded object says of itself, without decoding the rest.
//!
//! ```text
//!   stored   apiVersion kind metadata { name project: id   ...                    } spec status
//!   shown    apiVersion kind metadata { name project: name ... resourceVersion: 7 } spec status
//! ```
//! Only the top level and the fields of the metadata are looked at; everything else is copied as it
//! is, unknown fields included.
use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::wire::next;
use crate::kind::Kind;

/// What the metadata says afterwards. `None` leaves it as it is; empty text takes it away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown<'a> {
    pub project: Option<&'a str>,
    pub resource_version: Option<&'a str>,
}

/// The same object, shown differently; `None` when the bytes are of an unusual form and must be
/// decoded.
pub(super) fn splice(kind: &Kind, bytes: &[u8], shown: Shown<'_>) -> Option<Bytes> {
    let numbers = [kind.numbers.api_version, kind.numbers.kind];
    let metadata = kind.numbers.metadata;
    let (mut before, mut meta, mut after): (Vec<&[u8]>, _, &[u8]) = (Vec::new(), None, &[]);
    let mut rest = bytes;
    while let Some(field) = next(&mut rest)? {
        let is_meta = field.number == metadata;
        match meta {
            None if is_meta && field.wire == WireType::LengthDelimited => {
                (meta, after) = (Some(field.content), rest);
            }
            None if numbers.contains(&field.number) => {}
            None if !is_meta => before.push(field.whole),
            Some(_) if !is_meta && !numbers.contains(&field.number) => {}
            // Metadata in parts, or types where nobody writes them.
            None | Some(_) => return None,
        }
    }
    let kept = kept(kind, meta.unwrap_or_default(), shown)?;
    let said = [
        (kind.numbers.project, shown.project),
        (kind.numbers.resource_version, shown.resource_version),
    ];
    let said = said.map(|(number, text)| (number, text.filter(|text| !text.is_empty())));
    let length = kept.iter().map(|part| part.len()).sum::<usize>()
        + said.iter().filter_map(|(n, text)| text.map(|text| text_len(*n, text))).sum::<usize>();

    let mut out = Vec::with_capacity(bytes.len() + 64);
    put_text(numbers[0], kind.api_version(), &mut out);
    put_text(numbers[1], kind.kind(), &mut out);
    before.iter().for_each(|part| out.put_slice(part));
    if meta.is_some() || length != 0 {
        encode_key(metadata, WireType::LengthDelimited, &mut out);
        encode_varint(length as u64, &mut out);
    }
    kept.iter().for_each(|part| out.put_slice(part));
    for (number, text) in said {
        if let Some(text) = text {
            put_text(number, text, &mut out);
        }
    }
    out.put_slice(after);
    Some(out.into())
}

/// The bytes of the metadata of an encoded object.
pub(super) fn metadata<'a>(kind: &Kind, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let number = kind.numbers.metadata;
    let (mut rest, mut found) = (bytes, None);
    while let Some(field) = next(&mut rest)? {
        if field.number == number {
            // Written in parts it must be put together, which decoding does.
            if found.is_some() || field.wire != WireType::LengthDelimited {
                return None;
            }
            found = Some(field.content);
        }
    }
    found
}

/// A text of the metadata: `None` where it cannot be told without decoding, empty where it is absent.
pub(super) fn meta_text<'a>(kind: &Kind, bytes: &'a [u8], number: u32) -> Option<&'a str> {
    let (mut rest, mut found) = (metadata(kind, bytes)?, "");
    while let Some(field) = next(&mut rest)? {
        if field.number == number {
            found = std::str::from_utf8(field.content).ok()?;
        }
    }
    Some(found)
}

/// Whether a field of the metadata is there: `None` where it cannot be told without decoding.
pub(super) fn meta_has(kind: &Kind, bytes: &[u8], number: u32) -> Option<bool> {
    let mut rest = metadata(kind, bytes)?;
    while let Some(field) = next(&mut rest)? {
        if field.number == number {
            return Some(true);
        }
    }
    Some(false)
}

/// The parts of the metadata that stay, as long runs.
fn kept<'a>(kind: &Kind, meta: &'a [u8], shown: Shown<'_>) -> Option<Vec<&'a [u8]>> {
    let replaced = |number: u32| {
        number == kind.numbers.project && shown.project.is_some()
            || number == kind.numbers.resource_version && shown.resource_version.is_some()
    };
    let (mut parts, mut rest, mut run) = (Vec::new(), meta, meta);
    while let Some(field) = next(&mut rest)? {
        if replaced(field.number) {
            let length = run.len() - rest.len() - field.whole.len();
            parts.push(&run[..length]);
            run = rest;
        }
    }
    parts.push(run);
    Some(parts)
}

fn text_len(number: u32, text: &str) -> usize {
    prost::encoding::key_len(number)
        + prost::encoding::encoded_len_varint(text.len() as u64)
        + text.len()
}

pub(super) fn put_text(number: u32, text: &str, out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(text.len() as u64, out);
    out.put_slice(text.as_bytes());
}

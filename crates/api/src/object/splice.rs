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

use super::wire::{self, next};
use crate::kind::Kind;

/// What the metadata says instead. `None` leaves it as it is; empty text takes it away.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub project: Option<Box<str>>,
    pub resource_version: Option<Box<str>>,
}

impl Shown {
    pub fn is_nothing(&self) -> bool {
        self.project.is_none() && self.resource_version.is_none()
    }
}

/// The same object, shown differently; `None` when the bytes are of an unusual form and must be
/// decoded. All that have a [`Glance`] are of the usual one.
pub(super) fn splice(kind: &Kind, bytes: &[u8], shown: &Shown) -> Option<Bytes> {
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
        (kind.numbers.project, shown.project.as_deref()),
        (kind.numbers.resource_version, shown.resource_version.as_deref()),
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

/// Where a text stands in the bytes of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub fn text(self, bytes: &[u8]) -> &str {
        wire::text(&bytes[self.start as usize..self.end as usize])
    }
}

/// What the metadata says that is asked for most, and where: found in one walk. Texts that are absent are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Glance {
    pub name: Span,
    pub project: Span,
    pub uid: Span,
    pub resource_version: Span,
    pub has_owners: bool,
    pub is_going: bool,
}

/// `None` where the bytes are of an unusual form, and must be decoded to tell.
pub(super) fn glance(kind: &Kind, bytes: &[u8]) -> Option<Glance> {
    let (numbers, mut rest, mut found) = (&kind.numbers, bytes, None);
    while let Some(field) = next(&mut rest)? {
        let is_type = field.number == numbers.api_version || field.number == numbers.kind;
        if field.number == numbers.metadata && field.wire == WireType::LengthDelimited {
            if found.is_some() {
                return None;
            }
            found = Some(glance_at(kind, field.content, bytes.len() - rest.len())?);
        } else if field.number == numbers.metadata || is_type && found.is_some() {
            return None;
        }
    }
    found
}

/// Of metadata that ends at a place of the object.
fn glance_at(kind: &Kind, metadata: &[u8], end: usize) -> Option<Glance> {
    let (numbers, mut found, mut rest) = (&kind.numbers, Glance::default(), metadata);
    while let Some(field) = next(&mut rest)? {
        let place = match field.number {
            number if number == numbers.name => &mut found.name,
            number if number == numbers.project => &mut found.project,
            number if number == numbers.uid => &mut found.uid,
            number if number == numbers.resource_version => &mut found.resource_version,
            number => {
                found.has_owners |= number == numbers.owner_references;
                found.is_going |= number == numbers.deletion_timestamp;
                continue;
            }
        };
        std::str::from_utf8(field.content).ok()?;
        let end = end - rest.len();
        let start = u32::try_from(end - field.content.len()).ok()?;
        *place = Span { start, end: u32::try_from(end).ok()? };
    }
    Some(found)
}

/// The parts of the metadata that stay, as long runs.
fn kept<'a>(kind: &Kind, meta: &'a [u8], shown: &Shown) -> Option<Vec<&'a [u8]>> {
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

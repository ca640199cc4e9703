//! Writes that are made of bytes: only the part of an object that is written is decoded.
//!
//! ```text
//!             metadata                       spec                      status
//!   status    as it is                       as it is                  given, validated
//!   declare   given, and the server's own    given, with defaults,     as it is
//!                                            validated
//! ```
//! What is made is what the general way (decode both, merge, fill in, validate, compare, encode) makes of
//! the same two objects. Where that cannot be told (bytes of an unusual form, something that is wrong, a
//! rule that wants to see the whole object, fields that somebody manages), nothing is made: the caller goes
//! the general way, which also finds the words for what is wrong.
mod metadata;

use std::sync::Arc;

use prost::encoding::WireType;

use self::metadata::Metadata;
pub(super) use self::metadata::put_bytes;
use super::{Encoded, Object, splice::put_text, wire::next};
use crate::{
    kind::Kind,
    record::{self, Record, encode_to},
    schema::Schema,
    validate,
};

/// What an object becomes by a write.
#[derive(Clone, Debug)]
pub enum Composed {
    /// It stays as it is.
    Same,
    /// Without a resource version: it has none before it is written.
    Next(Encoded),
}

impl Encoded {
    /// This object with the status of another one of its kind. `None` where both must be decoded.
    pub fn with_status_of(&self, given: &Self) -> Option<Composed> {
        let kind = self.kind();
        kind.numbers.status?;
        let (old, new) = (Parts::read(kind, self.raw())?, Parts::read(kind, given.raw())?);
        let meta = Metadata::read(old.metadata)?.within(self.project().ok()?);
        if meta.is_deleted() || meta.has_managed_status() {
            return None;
        }
        if !Metadata::read(new.metadata)?.is_readable() || !new.rest.is_empty() {
            return None;
        }
        partial(kind, new.spec)?;
        let (before, next) = (partial(kind, old.status)?, partial(kind, new.status)?);
        if !next.validate_status(Some(&before)).is_empty() {
            return None;
        }
        if next.same_status(&before) {
            return Some(Composed::Same);
        }
        let mut bytes = old.begin(kind, new.status.len());
        put_metadata(kind, &meta.bytes(&meta, meta.generation), &mut bytes);
        bytes.extend_from_slice(old.spec);
        old.rest.iter().for_each(|field| bytes.extend_from_slice(field));
        encode_to(&kind.schema, Schema::ROOT, &next.record, &mut bytes);
        Some(Composed::Next(Self::new(kind, bytes.into())))
    }

    /// This object with the metadata and the spec of another one of its kind; what only the server writes
    /// stays. With `kept`, finalizers and owners stay too where none are given, and the finalizers that it
    /// names in any case; the finalizers in `holds` are there afterwards, whoever left them out. Lineage stays.
    /// `None` where both must be decoded.
    pub fn declare(
        &self,
        given: &Self,
        kept: Option<fn(&str) -> bool>,
        holds: &[&str],
    ) -> Option<Composed> {
        let kind = self.kind();
        if !is_plain(kind) {
            return None;
        }
        let (old, new) = (Parts::read(kind, self.raw())?, Parts::read(kind, given.raw())?);
        let before = Metadata::read(old.metadata)?.within(self.project().ok()?);
        let mut meta = Metadata::read(new.metadata)?.within(given.project().ok()?);
        let unusual = !old.rest.is_empty() || !new.rest.is_empty() || !meta.is_readable();
        if unusual || before.is_deleted() || before.is_managed() {
            return None;
        }
        if let Some(always) = kept {
            meta.keep(&before, always);
        }
        meta.keep_lineage(&before);
        meta.hold(holds);
        if !meta.fits(kind, &before) {
            return None;
        }
        partial(kind, new.status)?;
        let was = partial(kind, old.spec)?;
        let mut spec = if old.spec == new.spec { was.clone() } else { partial(kind, new.spec)? };
        spec.default();
        if !validate::validate_spec(&spec, Some(&was)).is_empty() {
            return None;
        }
        let same_spec = spec.same_spec(&was);
        if same_spec && meta.same(kind, &before) {
            return Some(Composed::Same);
        }
        let asks_same = same_spec || kind.shareable() && spec.asks_same(&was);
        let generation = before.generation + i64::from(!asks_same);
        let mut bytes = old.begin(kind, new.spec.len() + new.metadata.len());
        put_metadata(kind, &meta.bytes(&before, generation), &mut bytes);
        encode_to(&kind.schema, Schema::ROOT, &spec.record, &mut bytes);
        bytes.extend_from_slice(old.status);
        Some(Composed::Next(Self::new(kind, bytes.into())))
    }
}

/// Whether everything that is to be known about a kind's spec stands in its definition, and its objects
/// are nothing but metadata, spec and status.
fn is_plain(kind: &Kind) -> bool {
    let parts = 3 + usize::from(kind.has_spec()) + usize::from(kind.has_status());
    kind.defaulters.is_empty()
        && kind.validators.is_empty()
        && kind.spoke_of().is_none()
        && !kind.internal()
        && kind.schema.root().fields.len() == parts
        && kind.schema.root().oneofs.is_empty()
}

/// An object of which only some fields are known; `None` where they are none of the kind.
fn partial(kind: &Arc<Kind>, fields: &[u8]) -> Option<Object> {
    let record: Record = record::decode(&kind.schema, Schema::ROOT, fields).ok()?;
    Some(Object { kind: kind.clone(), record })
}

/// The fields of an encoded object, as bytes.
struct Parts<'a> {
    /// What the field holds.
    metadata: &'a [u8],
    /// The whole field; empty where it is absent.
    spec: &'a [u8],
    status: &'a [u8],
    /// Every other field but those that name the type.
    rest: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// `None` where a field is written in parts, or is none that a message of the kind has there.
    fn read(kind: &Kind, bytes: &'a [u8]) -> Option<Self> {
        let numbers = &kind.numbers;
        let mut parts = Self { metadata: &[], spec: &[], status: &[], rest: Vec::new() };
        let (mut rest, mut seen) = (bytes, 0_u8);
        while let Some(field) = next(&mut rest)? {
            let number = field.number;
            let place = if number == numbers.metadata {
                parts.metadata = field.content;
                1
            } else if Some(number) == numbers.spec {
                parts.spec = field.whole;
                2
            } else if Some(number) == numbers.status {
                parts.status = field.whole;
                4
            } else if number == numbers.api_version || number == numbers.kind {
                std::str::from_utf8(field.content).ok()?;
                0
            } else {
                parts.rest.push(field.whole);
                continue;
            };
            if seen & place != 0 || field.wire != WireType::LengthDelimited {
                return None;
            }
            seen |= place;
        }
        (seen & 1 == 1).then_some(parts)
    }

    /// The beginning of an object that is about as large as this one and so much more.
    fn begin(&self, kind: &Kind, more: usize) -> Vec<u8> {
        let held = self.metadata.len() + self.spec.len() + self.status.len();
        let others = self.rest.iter().map(|field| field.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(held + others + more + 128);
        put_text(kind.numbers.api_version, kind.api_version(), &mut bytes);
        put_text(kind.numbers.kind, kind.kind(), &mut bytes);
        bytes
    }
}

fn put_metadata(kind: &Kind, metadata: &[u8], bytes: &mut Vec<u8>) {
    metadata::put_bytes(kind.numbers.metadata, metadata, bytes);
}

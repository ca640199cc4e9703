//! Metadata as it stands in bytes.
use std::sync::Arc;

use prost::Message as _;
use prost::encoding::{WireType, decode_varint, encode_key, encode_varint};

use super::partial;
use crate::{
    ObjectMeta,
    kind::Kind,
    object::{LINEAGE, same_value, splice::put_text, wire},
    schema::{FieldSchema, MessageSchema},
    validate::{self, ANNOTATIONS_BYTES_MAX, is_label_value, is_qualified_name},
};

// The fields of `ObjectMeta`, by number.
const NAME: u32 = 1;
const PROJECT: u32 = 2;
const DESCRIPTION: u32 = 3;
const LABELS: u32 = 4;
const ANNOTATIONS: u32 = 5;
const UID: u32 = 6;
const RESOURCE_VERSION: u32 = 7;
const GENERATION: u32 = 8;
const CREATION_TIMESTAMP: u32 = 9;
const DELETION_TIMESTAMP: u32 = 10;
const FINALIZERS: u32 = 11;
const OWNER_REFERENCES: u32 = 12;
const MANAGED_FIELDS: u32 = 13;
const GENERATE_NAME: u32 = 14;

/// From the metadata to the keys of the sets of managed fields, and the key of what is managed of a status.
const MANAGED_KEYS: [u32; 4] = [MANAGED_FIELDS, 6, 1, 1];
const MANAGED_STATUS: &[u8] = b"f:status";

/// Of a map's entry.
const KEY: u32 = 1;
const VALUE: u32 = 2;

type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The metadata of an encoded object.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata<'a> {
    name: &'a str,
    project: &'a str,
    description: &'a str,
    generate_name: &'a str,
    /// In order, each key once.
    labels: Pairs<'a>,
    annotations: Pairs<'a>,
    finalizers: Vec<&'a str>,
    /// Whole fields.
    owners: Vec<&'a [u8]>,
    uid: &'a str,
    pub(super) generation: i64,
    /// The whole fields; empty where they are absent.
    created: &'a [u8],
    deleted: &'a [u8],
    managed: Vec<&'a [u8]>,
}

impl<'a> Metadata<'a> {
    /// `None` where something is in it that is not known here, or is not as we write it.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut meta = Self::default();
        let (mut rest, mut seen) = (bytes, 0_u32);
        while let Some(field) = wire::next(&mut rest)? {
            let repeated = [LABELS, ANNOTATIONS, FINALIZERS, OWNER_REFERENCES, MANAGED_FIELDS];
            if !repeated.contains(&field.number) {
                let place = 1_u32.checked_shl(field.number)?;
                if seen & place != 0 {
                    return None;
                }
                seen |= place;
            }
            meta.take(&field)?;
        }
        for pairs in [&mut meta.labels, &mut meta.annotations] {
            pairs.sort_unstable();
            if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
                return None;
            }
        }
        Some(meta)
    }

    /// The same in this project, whatever was read.
    pub fn within(self, project: &'a str) -> Self {
        Self { project, ..self }
    }

    fn take(&mut self, field: &wire::Field<'a>) -> Option<()> {
        if field.number == GENERATION {
            let mut content = field.content;
            let number = decode_varint(&mut content).ok();
            self.generation = number.filter(|_| field.wire == WireType::Varint)?.cast_signed();
            return Some(());
        }
        if field.wire != WireType::LengthDelimited {
            return None;
        }
        let text = || std::str::from_utf8(field.content).ok();
        match field.number {
            NAME => self.name = text()?,
            PROJECT => self.project = text()?,
            DESCRIPTION => self.description = text()?,
            GENERATE_NAME => self.generate_name = text()?,
            UID => self.uid = text()?,
            // Whoever looks at it asks the object.
            RESOURCE_VERSION => drop(text()?),
            LABELS => self.labels.push(pair(field.content)?),
            ANNOTATIONS => self.annotations.push(pair(field.content)?),
            FINALIZERS => self.finalizers.push(text()?),
            OWNER_REFERENCES => self.owners.push(field.whole),
            CREATION_TIMESTAMP => self.created = field.whole,
            DELETION_TIMESTAMP => self.deleted = field.whole,
            MANAGED_FIELDS => self.managed.push(field.whole),
            _ => return None,
        }
        Some(())
    }

    pub fn is_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Whether everything that was not looked at could be read.
    pub fn is_readable(&self) -> bool {
        let single = [self.created, self.deleted].into_iter();
        let mut unread = single.chain(self.owners.iter().chain(&self.managed).copied());
        unread.all(|field| field.is_empty() || ObjectMeta::decode(field).is_ok())
    }

    /// Whether anyone is recorded as the manager of a field.
    pub fn is_managed(&self) -> bool {
        !self.managed.is_empty()
    }

    /// Whether anyone is recorded as the manager of a field of the status.
    pub fn has_managed_status(&self) -> bool {
        let mut found = false;
        for entry in &self.managed {
            wire::each(entry, &MANAGED_KEYS, &mut |key| found |= key == MANAGED_STATUS);
        }
        found
    }

    /// Takes over what stays where nothing is said of it, and the finalizers that stay in any case.
    pub fn keep(&mut self, old: &Self, always: fn(&str) -> bool) {
        let silent = self.finalizers.is_empty();
        let kept = old.finalizers.iter().filter(|held| silent || always(held));
        let missing: Vec<&str> =
            kept.filter(|held| !self.finalizers.contains(held)).copied().collect();
        self.finalizers.extend(missing);
        if self.owners.is_empty() {
            self.owners.clone_from(&old.owners);
        }
    }

    /// Where the object came from stays as it is, whatever is given.
    pub fn keep_lineage(&mut self, old: &Self) {
        self.annotations.retain(|(key, _)| *key != LINEAGE);
        if let Some(kept) = old.annotations.iter().find(|(key, _)| *key == LINEAGE) {
            let place = self.annotations.partition_point(|pair| pair < kept);
            self.annotations.insert(place, *kept);
        }
    }

    /// Adds the finalizers that are missing.
    pub fn hold(&mut self, holds: &[&'a str]) {
        let missing = holds.iter().filter(|held| !self.finalizers.contains(held));
        let missing: Vec<&str> = missing.copied().collect();
        self.finalizers.extend(missing);
    }

    /// Whether it may follow `old`: everything that people write is as the rules say.
    pub fn fits(&self, kind: &Arc<Kind>, old: &Self) -> bool {
        let schema = definition(kind);
        let texts = [
            (NAME, self.name),
            (PROJECT, self.project),
            (DESCRIPTION, self.description),
            (GENERATE_NAME, self.generate_name),
        ];
        let field = |number| field(schema, number);
        let same_place = self.name == old.name && self.project == old.project;
        same_place
            && self.project.is_empty() == kind.cluster_scoped()
            && texts.into_iter().all(|(number, text)| {
                field(number).is_some_and(|field| validate::text_fits(field, text))
            })
            && field(LABELS).is_some_and(|field| map_fits(field, &self.labels))
            && field(ANNOTATIONS).is_some_and(|field| map_fits(field, &self.annotations))
            && self
                .labels
                .iter()
                .all(|(key, value)| is_qualified_name(key) && is_label_value(value))
            && self.annotations.iter().all(|(key, _)| is_qualified_name(key))
            && size(&self.annotations) <= ANNOTATIONS_BYTES_MAX
            && field(FINALIZERS).is_some_and(|field| set_fits(field, &self.finalizers))
            && self.finalizers.iter().all(|name| is_qualified_name(name))
            && self.owners_fit(kind, old)
    }

    fn owners_fit(&self, kind: &Arc<Kind>, old: &Self) -> bool {
        if self.owners.is_empty() {
            return true;
        }
        let (Some(new), Some(old)) = (owners(kind, &self.owners), owners(kind, &old.owners)) else {
            return false;
        };
        let Some(field) = field(definition(kind), OWNER_REFERENCES) else { return false };
        let value = |object: &super::Object| {
            object.metadata().and_then(|meta| meta.get(field.number).cloned())
        };
        validate::has_one_controller(&new)
            && validate::field_fits(&kind.schema, field, value(&new).as_ref(), value(&old).as_ref())
    }

    /// Whether it says the same as `old`; what only the server writes aside.
    pub fn same(&self, kind: &Arc<Kind>, old: &Self) -> bool {
        let sorted = |names: &[&'a str]| {
            let mut sorted = names.to_vec();
            sorted.sort_unstable();
            sorted
        };
        self.description == old.description
            && self.generate_name == old.generate_name
            && self.labels == old.labels
            && self.annotations == old.annotations
            && sorted(&self.finalizers) == sorted(&old.finalizers)
            && (self.owners == old.owners || self.same_owners(kind, old).unwrap_or(false))
    }

    fn same_owners(&self, kind: &Arc<Kind>, old: &Self) -> Option<bool> {
        let field = field(definition(kind), OWNER_REFERENCES)?;
        let (new, old) = (owners(kind, &self.owners)?, owners(kind, &old.owners)?);
        let value = |object| super::Object::metadata(object)?.get(field.number);
        Some(match (value(&new), value(&old)) {
            (Some(new), Some(old)) => same_value(&kind.schema, field, new, old),
            (new, old) => new.is_none() && old.is_none(),
        })
    }

    /// The metadata of what people write here and the server wrote there, without a resource version.
    pub fn bytes(&self, server: &Self, generation: i64) -> Vec<u8> {
        let texts = [self.name, self.project, self.description, self.generate_name, server.uid];
        let managed = server.managed.iter().map(|entry| entry.len()).sum::<usize>();
        let owners = self.owners.iter().map(|owner| owner.len()).sum::<usize>();
        let listed = self.finalizers.iter().map(|name| name.len() + 8).sum::<usize>();
        let pairs = [&self.labels, &self.annotations].map(|pairs| size(pairs) + 16 * pairs.len());
        let length = texts.map(str::len).into_iter().chain(pairs).sum::<usize>();
        let mut out = Vec::with_capacity(length + managed + owners + listed + 96);
        put_some(NAME, self.name, &mut out);
        put_some(PROJECT, self.project, &mut out);
        put_some(DESCRIPTION, self.description, &mut out);
        self.labels.iter().for_each(|pair| put_pair(LABELS, *pair, &mut out));
        self.annotations.iter().for_each(|pair| put_pair(ANNOTATIONS, *pair, &mut out));
        put_some(UID, server.uid, &mut out);
        if generation != 0 {
            encode_key(GENERATION, WireType::Varint, &mut out);
            encode_varint(generation.cast_unsigned(), &mut out);
        }
        out.extend_from_slice(server.created);
        self.finalizers.iter().for_each(|name| put_text(FINALIZERS, name, &mut out));
        self.owners.iter().for_each(|owner| out.extend_from_slice(owner));
        server.managed.iter().for_each(|entry| out.extend_from_slice(entry));
        put_some(GENERATE_NAME, self.generate_name, &mut out);
        out
    }
}

/// The definition of a kind's metadata.
fn definition(kind: &Kind) -> &MessageSchema {
    kind.schema.message(kind.parts.metadata)
}

fn field(schema: &MessageSchema, number: u32) -> Option<&FieldSchema> {
    schema.fields.iter().find(|field| field.number == number)
}

fn pair(entry: &[u8]) -> Option<(&str, &str)> {
    let (mut rest, mut key, mut value) = (entry, None, None);
    while let Some(field) = wire::next(&mut rest)? {
        let place = match field.number {
            KEY => &mut key,
            VALUE => &mut value,
            _ => return None,
        };
        if place.is_some() || field.wire != WireType::LengthDelimited {
            return None;
        }
        *place = Some(std::str::from_utf8(field.content).ok()?);
    }
    Some((key.unwrap_or_default(), value.unwrap_or_default()))
}

fn size(pairs: &Pairs<'_>) -> usize {
    pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn map_fits(field: &FieldSchema, pairs: &Pairs<'_>) -> bool {
    let items = pairs.iter().map(|(_, value)| *value);
    validate::items_fit(field, pairs.len(), items)
}

fn set_fits(field: &FieldSchema, names: &[&str]) -> bool {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    let unique = sorted.windows(2).all(|two| two[0] != two[1]);
    unique && validate::items_fit(field, names.len(), names.iter().copied())
}

/// An object with nothing but owners.
fn owners(kind: &Arc<Kind>, owners: &[&[u8]]) -> Option<super::Object> {
    let mut bytes = Vec::new();
    put_bytes(kind.numbers.metadata, &owners.concat(), &mut bytes);
    partial(kind, &bytes)
}

fn put_some(number: u32, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_text(number, text, out);
    }
}

fn put_pair(number: u32, (key, value): (&str, &str), out: &mut Vec<u8>) {
    let length = |number, text: &str| match text.len() {
        0 => 0,
        length => {
            prost::encoding::key_len(number)
                + prost::encoding::encoded_len_varint(length as u64)
                + length
        }
    };
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint((length(KEY, key) + length(VALUE, value)) as u64, out);
    put_some(KEY, key, out);
    put_some(VALUE, value, out);
}

pub(in crate::object) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

//! Where an object came from, as git sync writes it down. Only those who ask for it see it.
use bytes::Bytes;
use prost::encoding::WireType;

use super::{
    Encoded, Object, ObjectError,
    compose::put_bytes,
    wire::{each, next, of_entry},
};
use crate::kind::Kind;

/// The annotation that holds it.
pub const LINEAGE: &str = "orrery.dev/lineage";

impl Object {
    pub fn lineage(&self) -> Option<&str> {
        self.annotation(LINEAGE)
    }

    /// Takes it out. An object that has none is not touched.
    pub fn take_lineage(&mut self) -> Option<String> {
        self.lineage()?;
        self.remove_annotation(LINEAGE)
    }

    /// Makes it this one, or takes it away.
    pub fn set_lineage(&mut self, lineage: Option<&str>) {
        match lineage {
            Some(lineage) => self.set_annotation(LINEAGE, lineage),
            None => drop(self.take_lineage()),
        }
    }
}

impl Encoded {
    /// Whether it says where it came from. Nothing is decoded or encoded for that.
    pub fn has_lineage(&self) -> bool {
        if let Some(object) = self.decoded() {
            return object.lineage().is_some();
        }
        let way = [self.kind().numbers.metadata, self.kind().numbers.annotations];
        let mut found = false;
        each(self.raw(), &way, &mut |entry| found |= of_entry(entry, LINEAGE).is_some());
        found
    }

    /// The same object as those see it who do not ask where it came from.
    pub fn without_lineage(&self) -> Result<Self, ObjectError> {
        if let Some(bytes) = stripped(self.kind(), self.bytes()) {
            return Ok(Self::new(self.kind(), bytes));
        }
        let mut object = self.object()?.clone();
        object.take_lineage();
        Ok(Self::from(object))
    }
}

/// The bytes without the annotation; `None` where they must be decoded.
fn stripped(kind: &Kind, bytes: &[u8]) -> Option<Bytes> {
    let (metadata, annotations) = (kind.numbers.metadata, kind.numbers.annotations);
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(field) = next(&mut rest)? {
        if field.number != metadata {
            out.extend_from_slice(field.whole);
            continue;
        }
        if field.wire != WireType::LengthDelimited {
            return None;
        }
        let (mut rest, mut kept) = (field.content, Vec::with_capacity(field.content.len()));
        while let Some(field) = next(&mut rest)? {
            let is_it = field.number == annotations && of_entry(field.content, LINEAGE).is_some();
            if !is_it {
                kept.extend_from_slice(field.whole);
            }
        }
        put_bytes(metadata, &kept, &mut out);
    }
    Some(out.into())
}

//! One object of several entries, and back.
use crate::error::Error;
use crate::keys::Keys;
use crate::store_accessor::decode;
use orrery_api::{ConvertError, Kind, Object, Spoke};
use orrery_store::{Entry, Expect, Op, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Knows how the objects of a kind are stored.
pub struct Composer {
    pub spoke: Arc<Spoke>,
    pub keys: Keys,
}

impl Composer {
    /// The object whose first part this is, with the other parts that a snapshot holds.
    pub fn read(&self, snapshot: &Snapshot, head: &Entry) -> Result<Object, Error> {
        let parts = self.parts_of(&head.key);
        self.compose(head, snapshot.range(&parts).map(|part| &**part), head.modified)
    }

    /// The object that these entries are together, at a revision.
    pub fn compose<'a>(
        &self,
        head: &Entry,
        parts: impl Iterator<Item = &'a Entry>,
        revision: Revision,
    ) -> Result<Object, Error> {
        let mut read = vec![decode(self.first()?, head)?];
        for part in parts {
            read.push(decode(self.kind_of(part)?, part)?);
        }
        for part in &mut read {
            part.set_resource_version("");
        }
        let mut object = self.spoke.to_hub(&read).map_err(|error| self.unfit(&error))?;
        object.set_resource_version(&revision.to_string());
        Ok(object)
    }

    /// What puts an object: every part of it, and away with the parts that it no longer has.
    pub fn write(
        &self,
        snapshot: &Snapshot,
        object: &Object,
        expect: Expect,
    ) -> Result<Vec<Op>, Error> {
        let parts = self.spoke.from_hub(object);
        let parts = parts.map_err(|error| Error::BadRequest(error.to_string()))?;
        let prefix = self.keys.parts(object.project(), object.name());
        let mut old: BTreeMap<String, Revision> =
            snapshot.range(&prefix).map(|part| (part.key.to_string(), part.modified)).collect();
        let mut parts = parts.into_iter();
        let head = parts.next().filter(|head| {
            let first = self.spoke.parts.first();
            first.is_some_and(|first| head.kind() == first) && head.name() == object.name()
        });
        let head = head.ok_or_else(|| {
            let kind = object.kind().kind();
            Error::Internal(format!("the stored form of {kind} does not begin with its first part"))
        })?;
        let key = self.keys.object(object.project(), object.name());
        let mut ops = vec![Op::put(key, head.encode(), expect)];
        for part in parts {
            let key = format!("{prefix}{}/{}", part.kind().kind(), part.name());
            let expect = old.remove(&key).map_or(Expect::Absent, Expect::At);
            ops.push(Op::put(key, part.encode(), expect));
        }
        ops.extend(old.into_iter().map(|(key, at)| Op::delete(key, at)));
        Ok(ops)
    }

    /// What the keys of the other parts begin with.
    pub fn parts_of(&self, head: &str) -> String {
        let place = head.strip_prefix(self.keys.all()).unwrap_or(head);
        format!("{}.parts/{place}/", self.keys.all_with_parts())
    }

    fn first(&self) -> Result<&Arc<Kind>, Error> {
        let none = || Error::Internal(format!("{:?} has no parts", self.spoke));
        self.spoke.parts.first().ok_or_else(none)
    }

    fn kind_of(&self, part: &Entry) -> Result<&Arc<Kind>, Error> {
        let name = part.key.rsplit('/').nth(1).unwrap_or_default();
        let found = self.spoke.parts.iter().find(|kind| kind.kind() == name);
        found.ok_or_else(|| Error::Internal(format!("{}: {name} is no part", part.key)))
    }

    fn unfit(&self, error: &ConvertError) -> Error {
        Error::Internal(format!("cannot put a {} together: {error}", self.spoke.hub.kind()))
    }
}

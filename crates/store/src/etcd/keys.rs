//! Where things are in etcd. Pure.

use std::sync::Arc;

use super::pb::KeyValue;
use crate::{
    error::Error,
    model::{Entry, Head, Revision, segment},
};
use bytes::Bytes;

/// The layout under one root.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    root: Arc<str>,
}

/// What an etcd key under the root is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    Entry(&'a str),
    /// A marker or another key of the engine itself.
    Own,
}

impl Keys {
    pub fn new(root: &str) -> Result<Self, Error> {
        if root.contains('\0') {
            return Err(Error::invalid("the root of the keys in etcd contains NUL"));
        }
        Ok(Self { root: root.into() })
    }

    pub fn entry(&self, key: &str) -> Bytes {
        [self.root.as_bytes(), key.as_bytes()].concat().into()
    }

    /// The marker of the segment that a key or prefix is in.
    pub fn marker(&self, key: &str) -> Bytes {
        [self.root.as_bytes(), segment(key).as_bytes(), b"\0"].concat().into()
    }

    pub fn incarnation(&self) -> Bytes {
        [self.root.as_bytes(), b"\0id"].concat().into()
    }

    /// The keys from `from` on that begin with `prefix`, as a half-open range.
    pub fn range(&self, prefix: &str, from: &str) -> (Bytes, Bytes) {
        (self.entry(from), end_of(&self.entry(prefix)))
    }

    /// What to watch so that the marker is part of it: the whole segment, or everything where the
    /// prefix is in none.
    pub fn watched(&self, prefix: &str) -> (Bytes, Bytes) {
        let segment = segment(prefix);
        self.range(segment, segment)
    }

    /// What an etcd key is to us.
    pub fn parse<'a>(&self, key: &'a [u8]) -> Result<Named<'a>, Error> {
        let foreign = || Error::Corrupt {
            what: format!("key {} in etcd", key.escape_ascii()),
            detail: "something else wrote it".to_owned(),
        };
        let rest = key.strip_prefix(self.root.as_bytes()).ok_or_else(foreign)?;
        if rest.contains(&0) {
            return Ok(Named::Own);
        }
        std::str::from_utf8(rest).map(Named::Entry).map_err(|_| foreign())
    }
}

/// The end of the range of all keys with this prefix. Where there is none, etcd's own word for
/// that: NUL.
fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(b"\0")
}

pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// A revision as etcd spells it. One that etcd cannot have reached stays one that it has not.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

pub(super) fn head(found: &KeyValue) -> Head {
    Head { created: revision(found.create_revision), modified: revision(found.mod_revision) }
}

pub(super) fn entry(key: &str, found: &KeyValue) -> Entry {
    let Head { created, modified } = head(found);
    // A copy, because what was decoded is a part of the whole answer and would keep it alive.
    let value = Bytes::copy_from_slice(&found.value);
    Entry { key: key.into(), value, created, modified }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prefix: &str, from: &str, to: &str) {
        let keys = Keys::new("r/").expect("it has no NUL");
        let range = keys.watched(prefix);
        assert_eq!(range, (Bytes::from(from.to_owned()), Bytes::from(to.to_owned())), "{prefix:?}");
        let marker = keys.marker(prefix);
        assert!(range.0 <= marker && marker < range.1, "the marker of {prefix:?} is watched");
    }

    #[test]
    fn a_watch_covers_its_marker() {
        check("", "r/", "r0");
        check("a", "r/", "r0");
        check("a/", "r/a/", "r/a0");
        check("a/b/c", "r/a/", "r/a0");
        check("/", "r//", "r/0");
    }

    #[test]
    fn ends_of_ranges() {
        assert_eq!(&end_of(b"a")[..], b"b");
        assert_eq!(&end_of(b"a\xff")[..], b"b");
        assert_eq!(&end_of(b"\xff")[..], b"\0");
        assert_eq!(&end_of(b"")[..], b"\0");
    }

    #[test]
    fn what_keys_are() {
        let keys = Keys::new("r/").expect("it has no NUL");
        assert_eq!(keys.parse(b"r/a/b"), Ok(Named::Entry("a/b")));
        assert_eq!(keys.parse(&keys.marker("a/b")), Ok(Named::Own));
        assert_eq!(keys.parse(&keys.incarnation()), Ok(Named::Own));
        assert!(keys.parse(b"r/\xff").is_err());
        assert!(keys.parse(b"other").is_err());
    }
}

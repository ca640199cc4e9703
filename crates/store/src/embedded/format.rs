//! The bytes of each row, and the checksum that guards them. Pure.
//!
//! ```text
//!   heads   key                created:8 modified:8                                       sum:8
//!   values  key 00 revision:8  1 created:8 value | 2                                      sum:8
//!   log     revision:8    before:8 count:2 { kind:1 previous:8 created:8 length:2 key }*  sum:8
//!   meta    name               content                                                    sum:8
//! ```
//! `before` is the commit before this one, so that a row of the log that is gone is missed. Numbers
//! are big-endian, so that revisions sort. A NUL ends the key in `values`; keys contain none, so
//! versions sort by key and then by revision.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    error::Error,
    model::{Head, Revision},
};

/// The version of this layout. Raise it when an older program must not touch the files.
pub(super) const FORMAT: u32 = 1;

const SUM: usize = 8;
const VALUE: u8 = 1;
const TOMBSTONE: u8 = 2;

/// One version of a key: what was put, or that it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Value { created: Revision, value: Bytes },
    Tombstone,
}

/// One key that a commit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub key: Arc<str>,
    pub kind: Kind,
    /// The version this one took the place of; zero if there was none.
    pub previous: Revision,
    pub created: Revision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Delete,
}

pub(super) fn revision_key(revision: Revision) -> [u8; 8] {
    revision.0.to_be_bytes()
}

pub(super) fn value_key(key: &str, revision: Revision) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 9);
    row.extend_from_slice(key.as_bytes());
    row.push(0);
    row.extend_from_slice(&revision.0.to_be_bytes());
    row
}

/// The key and revision of a row of `values`.
pub(super) fn split_value_key(row: &[u8]) -> Result<(&str, Revision), Error> {
    let broken = |detail: &str| corrupt("values", row, detail);
    let (key, rest) =
        row.split_at_checked(row.len().wrapping_sub(9)).ok_or_else(|| broken("short key"))?;
    let key = std::str::from_utf8(key).map_err(|_| broken("the key is not UTF-8"))?;
    let mut rest = rest;
    if rest.get_u8() != 0 {
        return Err(broken("the key does not end in NUL"));
    }
    Ok((key, Revision(rest.get_u64())))
}

pub(super) fn encode_head(key: &str, head: Head) -> Vec<u8> {
    let mut row = Vec::with_capacity(16 + SUM);
    row.put_u64(head.created.0);
    row.put_u64(head.modified.0);
    seal("heads", key.as_bytes(), row)
}

pub(super) fn decode_head(key: &str, row: &[u8]) -> Result<Head, Error> {
    let mut body = open("heads", key.as_bytes(), row)?;
    if body.len() != 16 {
        return Err(corrupt("heads", key.as_bytes(), "wrong length"));
    }
    Ok(Head { created: Revision(body.get_u64()), modified: Revision(body.get_u64()) })
}

pub(super) fn encode_version(row_key: &[u8], version: &Version) -> Vec<u8> {
    let mut row = Vec::new();
    match version {
        Version::Value { created, value } => {
            row.reserve_exact(1 + 8 + value.len() + SUM);
            row.put_u8(VALUE);
            row.put_u64(created.0);
            row.extend_from_slice(value);
        }
        Version::Tombstone => row.put_u8(TOMBSTONE),
    }
    seal("values", row_key, row)
}

pub(super) fn decode_version(row_key: &[u8], row: &[u8]) -> Result<Version, Error> {
    let mut body = open("values", row_key, row)?;
    match (body.try_get_u8(), body.len()) {
        (Ok(VALUE), 8..) => {
            let created = Revision(body.get_u64());
            Ok(Version::Value { created, value: Bytes::copy_from_slice(body) })
        }
        (Ok(TOMBSTONE), 0) => Ok(Version::Tombstone),
        (Ok(_) | Err(_), _) => Err(corrupt("values", row_key, "unknown content")),
    }
}

/// Whether a row of `values` marks a deletion. Does not check the row.
pub(super) fn is_tombstone(row: &[u8]) -> bool {
    row.first() == Some(&TOMBSTONE)
}

pub(super) fn encode_log(revision: Revision, before: Revision, changes: &[Logged]) -> Vec<u8> {
    let mut row = Vec::new();
    row.put_u64(before.0);
    row.put_u16(u16::try_from(changes.len()).expect("a commit has at most 100 operations"));
    for change in changes {
        row.put_u8(match change.kind {
            Kind::Put => VALUE,
            Kind::Delete => TOMBSTONE,
        });
        row.put_u64(change.previous.0);
        row.put_u64(change.created.0);
        row.put_u16(u16::try_from(change.key.len()).expect("a key has at most 1024 bytes"));
        row.extend_from_slice(change.key.as_bytes());
    }
    seal("log", &revision_key(revision), row)
}

/// The commit before this one, and what this one changed.
pub(super) fn decode_log(revision: Revision, row: &[u8]) -> Result<(Revision, Vec<Logged>), Error> {
    let row_key = revision_key(revision);
    let mut body = open("log", &row_key, row)?;
    let short = |_| corrupt("log", &row_key, "short row");
    let before = Revision(body.try_get_u64().map_err(short)?);
    let count = body.try_get_u16().map_err(short)?;
    let changes = (0..count).map(|_| decode_logged(&mut body)).collect::<Option<_>>();
    let changes = changes.ok_or_else(|| corrupt("log", &row_key, "unknown content"))?;
    Ok((before, changes))
}

fn decode_logged(body: &mut &[u8]) -> Option<Logged> {
    let kind = match body.try_get_u8().ok()? {
        VALUE => Kind::Put,
        TOMBSTONE => Kind::Delete,
        _ => return None,
    };
    let previous = Revision(body.try_get_u64().ok()?);
    let created = Revision(body.try_get_u64().ok()?);
    let length = usize::from(body.try_get_u16().ok()?);
    let (key, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(Logged { key: std::str::from_utf8(key).ok()?.into(), kind, previous, created })
}

pub(super) fn encode_meta(name: &str, content: &[u8]) -> Vec<u8> {
    seal("meta", name.as_bytes(), content.to_vec())
}

pub(super) fn decode_meta<const N: usize>(name: &str, row: &[u8]) -> Result<[u8; N], Error> {
    let body = open("meta", name.as_bytes(), row)?;
    body.try_into().map_err(|_| corrupt("meta", name.as_bytes(), "wrong length"))
}

/// Appends the checksum. It covers the table and the key too, so that a row that turns up in the
/// wrong place is found as well.
fn seal(table: &str, key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    let sum = checksum(table, key, &body);
    body.put_u64(sum);
    body
}

fn open<'a>(table: &str, key: &[u8], row: &'a [u8]) -> Result<&'a [u8], Error> {
    let at = row.len().checked_sub(SUM).ok_or_else(|| corrupt(table, key, "short row"))?;
    let (body, mut sum) = row.split_at(at);
    if sum.get_u64() != checksum(table, key, body) {
        return Err(corrupt(table, key, "the checksum does not match"));
    }
    Ok(body)
}

fn checksum(table: &str, key: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(table.as_bytes());
    hash.update(&key.len().to_be_bytes());
    hash.update(key);
    hash.update(body);
    hash.digest()
}

pub(super) fn corrupt(table: &str, key: &[u8], detail: &str) -> Error {
    let what = format!("row {} of table {table}", key.escape_ascii());
    Error::Corrupt { what, detail: detail.to_owned() }
}

/// For the fuzzer, what must hold for every row of every table: it is read or refused, with a checksum that fits or
/// without, and what is read is written as it was.
pub fn fuzz(bytes: &[u8]) {
    let (revision, key) = (Revision(7), "k");
    let row_key = value_key(key, revision);
    let sealed = |table: &str, key: &[u8]| seal(table, key, bytes.to_vec());
    let _ = split_value_key(bytes);
    for row in [bytes.to_vec(), sealed("heads", key.as_bytes())] {
        if let Ok(head) = decode_head(key, &row) {
            assert_eq!(encode_head(key, head), row);
        }
    }
    for row in [bytes.to_vec(), sealed("values", &row_key)] {
        if let Ok(version) = decode_version(&row_key, &row) {
            assert_eq!(encode_version(&row_key, &version), row);
        }
    }
    for row in [bytes.to_vec(), sealed("log", &revision_key(revision))] {
        if let Ok((before, changes)) = decode_log(revision, &row) {
            let again = decode_log(revision, &encode_log(revision, before, &changes));
            assert_eq!(again, Ok((before, changes)));
        }
    }
    let _ = decode_meta::<16>("m", &sealed("meta", b"m"));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back_as_they_went(
            key in "[a-zäß/]{1,20}", created: u64, modified: u64, value: Vec<u8>,
        ) {
            let (created, modified) = (Revision(created), Revision(modified));
            let head = Head { created, modified };
            prop_assert_eq!(decode_head(&key, &encode_head(&key, head)), Ok(head));

            let row_key = value_key(&key, modified);
            prop_assert_eq!(split_value_key(&row_key), Ok((key.as_str(), modified)));
            for version in [Version::Value { created, value: value.into() }, Version::Tombstone] {
                let row = encode_version(&row_key, &version);
                prop_assert_eq!(decode_version(&row_key, &row), Ok(version));
            }

            let put = Logged { key: key.into(), kind: Kind::Put, previous: created, created };
            let delete = Logged { kind: Kind::Delete, ..put.clone() };
            let changes = vec![put, delete];
            let row = encode_log(modified, created, &changes);
            prop_assert_eq!(decode_log(modified, &row), Ok((created, changes)));
        }

        /// Any one flipped bit is found, wherever it is.
        #[test]
        fn a_flipped_bit_is_found(value: Vec<u8>, at: prop::sample::Index, bit in 0..8u32) {
            let row_key = value_key("k", Revision(7));
            let version = Version::Value { created: Revision(7), value: value.into() };
            let mut row = encode_version(&row_key, &version);
            let at = at.index(row.len());
            row[at] ^= 1 << bit;
            let found = decode_version(&row_key, &row);
            let is_corrupt = matches!(found, Err(Error::Corrupt { .. }));
            prop_assert!(is_corrupt, "{:?}", found);
        }
    }

    #[test]
    fn a_row_under_another_key_is_found() {
        let head = Head { created: Revision(1), modified: Revision(2) };
        let error = decode_head("b", &encode_head("a", head)).expect_err("the row is of a");
        assert_eq!(
            error.to_string(),
            "row b of table heads is corrupt: the checksum does not match"
        );
    }

    #[test]
    fn versions_sort_by_key_then_revision() {
        let rows = [("a", 2), ("a", 300), ("a!", 1), ("a/b", 1), ("ab", 1)];
        let rows = rows.map(|(key, revision)| value_key(key, Revision(revision)));
        assert!(rows.is_sorted());
    }
}

//! The bytes of each row, and the checksum that guards them. Pure.
//!
//! ```text
//!   base     key     created:8 modified:8 value                          sum:8
//!   commits  last:8  before:8 count:8 hash:8 { changes:2 { change }* }*  sum:8
//!                    change: 1 created:8 length:2 key length:4 value
//!                         or 2 length:2 key
//!   standing name    content                                             sum:8
//! ```
//! A row of `commits` holds a group of commits, in order, numbered from the one after `before` to `last`: a row that
//! is gone is missed. `count` and `hash` are the [`Sum`] after them. Numbers are big-endian, so that revisions sort.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use smallvec::smallvec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::sum::Sum;
use crate::{
    engine::{Batch, Change},
    error::Error,
    model::{Entry, Head, Revision},
};

/// The version of this layout. Raise it when an older program must not touch the files.
pub(super) const FORMAT: u32 = 2;

const SUM: usize = 8;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// What a row of commits has before the first of them.
const COMMITS_HEAD: usize = 8 + 16;

/// The tables, as far as checksums tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Base = 1,
    Commits = 2,
    Standing = 3,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Commits => "commits",
            Self::Standing => "standing",
        }
    }
}

pub(super) fn revision_key(revision: Revision) -> [u8; 8] {
    revision.0.to_be_bytes()
}

/// The revision that a row of commits is found under, which is its last.
pub(super) fn revision_of(row_key: &[u8]) -> Result<Revision, Error> {
    let bytes = row_key.try_into().map_err(|_| lost(row_key, "the key is no revision"))?;
    Ok(Revision(u64::from_be_bytes(bytes)))
}

pub(super) fn encode_base(key: &str, head: Head, value: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(16 + value.len() + SUM);
    row.put_u64(head.created.0);
    row.put_u64(head.modified.0);
    row.extend_from_slice(value);
    seal(Table::Base, key.as_bytes(), row)
}

/// A row of `base`: its key, where that stands, and the value.
pub(super) fn decode_base<'a>(
    row_key: &'a [u8],
    row: &'a [u8],
) -> Result<(&'a str, Head, &'a [u8]), Error> {
    let broken = |detail| corrupt(Table::Base.name(), row_key, detail);
    let mut body = open(Table::Base, row_key, row)?;
    let key = std::str::from_utf8(row_key).map_err(|_| broken("the key is not UTF-8"))?;
    if body.len() < 16 {
        return Err(broken("short row"));
    }
    let (created, modified) = (Revision(body.get_u64()), Revision(body.get_u64()));
    Ok((key, Head { created, modified }, body))
}

/// A group of commits on its way into one row.
#[derive(Debug)]
pub(super) struct Group {
    row: Vec<u8>,
}

impl Group {
    /// For commits after this one.
    pub fn after(before: Revision) -> Self {
        let mut row = Vec::with_capacity(16 << 10);
        row.put_u64(before.0);
        row.put_bytes(0, COMMITS_HEAD - row.len());
        Self { row }
    }

    /// Begins the next commit, with so many changes.
    pub fn commit(&mut self, changes: usize) {
        self.row.put_u16(u16::try_from(changes).expect("a commit has at most 100 operations"));
    }

    pub fn put(&mut self, key: &str, created: Revision, value: &[u8]) {
        self.row.put_u8(PUT);
        self.row.put_u64(created.0);
        self.key(key);
        self.row.put_u32(u32::try_from(value.len()).expect("a value has at most 1 MiB"));
        self.row.extend_from_slice(value);
    }

    pub fn delete(&mut self, key: &str) {
        self.row.put_u8(DELETE);
        self.key(key);
    }

    fn key(&mut self, key: &str) {
        self.row.put_u16(u16::try_from(key.len()).expect("a key has at most 1024 bytes"));
        self.row.extend_from_slice(key.as_bytes());
    }

    /// The row, with the sum over all entries after its last commit.
    pub fn finish(mut self, last: Revision, sum: Sum) -> Vec<u8> {
        self.row[8..COMMITS_HEAD].copy_from_slice(&sum.to_bytes());
        seal(Table::Commits, &revision_key(last), self.row)
    }
}

/// A row of commits, whose checksum is right.
#[derive(Debug)]
pub(super) struct Commits<'a> {
    pub before: Revision,
    pub last: Revision,
    pub sum: Sum,
    body: &'a [u8],
}

/// What one commit did to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written<'a> {
    pub revision: Revision,
    pub key: &'a str,
    /// When the key was created, and its value; `None` where it was deleted.
    pub put: Option<(Revision, &'a [u8])>,
}

impl<'a> Commits<'a> {
    pub fn open(row_key: &[u8], row: &'a [u8]) -> Result<Self, Error> {
        let last = revision_of(row_key)?;
        let body = open(Table::Commits, row_key, row)?;
        let (mut head, body) =
            body.split_at_checked(COMMITS_HEAD).ok_or_else(|| lost(row_key, "short row"))?;
        let (before, sum) = (Revision(head.get_u64()), head.get_u128());
        if last <= before {
            return Err(lost(row_key, "it holds no commit"));
        }
        Ok(Self { before, last, sum: Sum::from_bytes(sum.to_be_bytes()), body })
    }

    /// Calls with every change, in order.
    pub fn each(&self, mut take: impl FnMut(Written<'a>)) -> Result<(), Error> {
        let broken = || lost(&revision_key(self.last), "unknown content");
        let mut rest = self.body;
        for revision in self.before.0 + 1..=self.last.0 {
            let changes = rest.try_get_u16().map_err(|_| broken())?;
            for _ in 0..changes {
                take(written(&mut rest, Revision(revision)).ok_or_else(broken)?);
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(broken()) }
    }

    /// The commits after `after`, as watchers see them.
    pub fn batches(&self, after: Revision) -> Result<Vec<Batch>, Error> {
        let mut batches: Vec<Batch> = Vec::new();
        self.each(|written| {
            if written.revision <= after {
                return;
            }
            match batches.last_mut() {
                Some(batch) if batch.revision == written.revision => {
                    batch.changes.push(written.to_change());
                }
                Some(_) | None => {
                    let changes = smallvec![written.to_change()];
                    batches.push(Batch { revision: written.revision, changes });
                }
            }
        })?;
        Ok(batches)
    }
}

impl Written<'_> {
    /// The entry that was put. Its value is a copy, so that it does not hold on to its whole group.
    pub fn to_entry(self) -> Option<Entry> {
        let (created, value) = self.put?;
        let (key, value) = (self.key.into(), Bytes::copy_from_slice(value));
        Some(Entry { key, value, created, modified: self.revision })
    }

    fn to_change(self) -> Change {
        let deleted = || Change::Delete { key: Arc::from(self.key), revision: self.revision };
        self.to_entry().map_or_else(deleted, Change::Put)
    }
}

fn written<'a>(rest: &mut &'a [u8], revision: Revision) -> Option<Written<'a>> {
    let created = match rest.try_get_u8().ok()? {
        PUT => Some(Revision(rest.try_get_u64().ok()?)),
        DELETE => None,
        _ => return None,
    };
    let length = rest.try_get_u16().ok()?;
    let key = std::str::from_utf8(take(rest, length.into())?).ok()?;
    let put = match created {
        Some(created) => {
            let length = usize::try_from(rest.try_get_u32().ok()?).ok()?;
            Some((created, take(rest, length)?))
        }
        None => None,
    };
    Some(Written { revision, key, put })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

pub(super) fn encode_standing(name: &str, content: &[u8]) -> Vec<u8> {
    seal(Table::Standing, name.as_bytes(), content.to_vec())
}

pub(super) fn decode_standing<const N: usize>(name: &str, row: &[u8]) -> Result<[u8; N], Error> {
    let body = open(Table::Standing, name.as_bytes(), row)?;
    body.try_into().map_err(|_| corrupt(Table::Standing.name(), name.as_bytes(), "wrong length"))
}

/// Appends the checksum. It covers the table and the key too, so that a row that turns up in the
/// wrong place is found as well.
fn seal(table: Table, key: &[u8], mut body: Vec<u8>) -> Vec<u8> {
    let sum = checksum(table, key, &body);
    body.put_u64(sum);
    body
}

fn open<'a>(table: Table, key: &[u8], row: &'a [u8]) -> Result<&'a [u8], Error> {
    let broken = |detail| corrupt(table.name(), key, detail);
    let at = row.len().checked_sub(SUM).ok_or_else(|| broken("short row"))?;
    let (body, mut sum) = row.split_at(at);
    if sum.get_u64() != checksum(table, key, body) {
        return Err(broken("the checksum does not match"));
    }
    Ok(body)
}

fn checksum(table: Table, key: &[u8], body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64(key).wrapping_add(table as u64))
}

/// A row of commits is not what it should be.
pub(super) fn lost(row_key: &[u8], detail: &str) -> Error {
    corrupt(Table::Commits.name(), row_key, detail)
}

pub(super) fn corrupt(table: &str, key: &[u8], detail: &str) -> Error {
    let what = format!("row {} of table {table}", key.escape_ascii());
    Error::Corrupt { what, detail: detail.to_owned() }
}

/// For the fuzzer, what must hold for every row of every table: it is read or refused, with a checksum that fits or
/// without, and what is read is written as it was.
pub fn fuzz(bytes: &[u8]) {
    let key = b"k";
    for row in [bytes.to_vec(), seal(Table::Base, key, bytes.to_vec())] {
        if let Ok((key, head, value)) = decode_base(key, &row) {
            assert_eq!(encode_base(key, head, value), row);
        }
    }
    // Few commits: a row of many is as long as they are.
    let row_key = revision_key(Revision(7));
    for row in [bytes.to_vec(), seal(Table::Commits, &row_key, bytes.to_vec())] {
        if let Ok(commits) = Commits::open(&row_key, &row)
            && let Ok(batches) = commits.batches(Revision::ZERO)
        {
            let again = encode_batches(commits.before, commits.last, &batches, commits.sum);
            let again = Commits::open(&row_key, &again).and_then(|it| it.batches(Revision::ZERO));
            assert_eq!(again, Ok(batches));
        }
    }
    let _ = decode_standing::<16>("m", &seal(Table::Standing, b"m", bytes.to_vec()));
}

/// A row with these commits, and empty ones where there is none.
fn encode_batches(before: Revision, last: Revision, batches: &[Batch], sum: Sum) -> Vec<u8> {
    let mut group = Group::after(before);
    for revision in before.0 + 1..=last.0 {
        let batch = batches.iter().find(|batch| batch.revision.0 == revision);
        let changes = batch.map_or(&[][..], |batch| &batch.changes);
        group.commit(changes.len());
        for change in changes {
            match change {
                Change::Put(entry) => group.put(&entry.key, entry.created, &entry.value),
                Change::Delete { key, .. } => group.delete(key),
            }
        }
    }
    group.finish(last, sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUM: Sum = Sum { count: 3, hash: 9 };

    /// A key, and when it was created with its value; or that it was deleted.
    type Made = (String, Option<(u64, Vec<u8>)>);

    fn change() -> impl Strategy<Value = Made> {
        let put = proptest::option::of((any::<u64>(), any::<Vec<u8>>()));
        ("[a-zäß/]{1,20}", put)
    }

    fn batch(revision: u64, changes: Vec<Made>) -> Batch {
        let revision = Revision(revision);
        let change = |(key, put): Made| match put {
            Some((created, value)) => Change::Put(Entry {
                key: key.into(),
                value: value.into(),
                created: Revision(created),
                modified: revision,
            }),
            None => Change::Delete { key: key.into(), revision },
        };
        Batch { revision, changes: changes.into_iter().map(change).collect() }
    }

    proptest! {
        #[test]
        fn rows_of_base_come_back_as_they_went(
            key in "[a-zäß/]{1,20}", created: u64, modified: u64, value: Vec<u8>,
        ) {
            let head = Head { created: Revision(created), modified: Revision(modified) };
            let row = encode_base(&key, head, &value);
            prop_assert_eq!(decode_base(key.as_bytes(), &row), Ok((key.as_str(), head, &*value)));
        }

        #[test]
        fn groups_come_back_as_they_went(
            before in 0..1_u64 << 60,
            commits in prop::collection::vec(prop::collection::vec(change(), 1..4), 1..6),
            skipped in 0..6_u64,
        ) {
            let batches: Vec<_> =
                (before + 1..).zip(commits).map(|(at, changes)| batch(at, changes)).collect();
            let last = Revision(before + batches.len() as u64);
            let row = encode_batches(Revision(before), last, &batches, SUM);
            let row_key = revision_key(last);
            let commits = Commits::open(&row_key, &row).expect("it is whole");
            prop_assert_eq!((commits.before, commits.sum), (Revision(before), SUM));
            let after = Revision(before + skipped);
            let rest: Vec<_> = batches.into_iter().filter(|it| after < it.revision).collect();
            prop_assert_eq!(commits.batches(after), Ok(rest));
        }

        /// Any one flipped bit is found, wherever it is.
        #[test]
        fn a_flipped_bit_is_found(value: Vec<u8>, at: prop::sample::Index, bit in 0..8u32) {
            let mut group = Group::after(Revision(6));
            group.commit(1);
            group.put("k", Revision(7), &value);
            let mut row = group.finish(Revision(7), SUM);
            let at = at.index(row.len());
            row[at] ^= 1 << bit;
            let found = Commits::open(&revision_key(Revision(7)), &row);
            let is_corrupt = matches!(found, Err(Error::Corrupt { .. }));
            prop_assert!(is_corrupt, "{:?}", found);
        }
    }

    #[test]
    fn a_row_under_another_key_is_found() {
        let head = Head { created: Revision(1), modified: Revision(2) };
        let row = encode_base("a", head, b"v");
        let error = decode_base(b"b", &row).expect_err("the row is of a");
        assert_eq!(
            error.to_string(),
            "row b of table base is corrupt: the checksum does not match"
        );
    }

    #[test]
    fn a_row_of_another_table_is_found() {
        let row = encode_standing("k", b"0123456789abcdefvalue");
        decode_base(b"k", &row).expect_err("the row is of standing");
    }
}

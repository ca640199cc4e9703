//! A checksum over all current entries together, kept up with every commit and checked on opening.
//!
//! Each row guards itself, but a row that is gone guards nothing: a few wrong bits in the files
//! that say which other files belong to a table make fjall leave out rows without noticing. The
//! sum is the exclusive or over all entries of a hash of key and revision, so it can be changed in
//! one step per write and computed again from either table.

use fjall::Readable;
use xxhash_rust::xxh3::Xxh3;

use super::{
    format,
    tables::{Tables, failed},
};
use crate::{error::Error, model::Revision};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub count: u64,
    pub hash: u64,
}

impl Sum {
    pub fn add(&mut self, key: &str, modified: Revision) {
        self.count = self.count.wrapping_add(1);
        self.hash ^= hash(key, modified);
    }

    pub fn remove(&mut self, key: &str, modified: Revision) {
        self.count = self.count.wrapping_sub(1);
        self.hash ^= hash(key, modified);
    }

    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.count) << 64 | u128::from(self.hash)).to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
        Self { count: half(both >> 64), hash: half(both) }
    }
}

fn hash(key: &str, modified: Revision) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(key.as_bytes());
    hash.update(&modified.0.to_be_bytes());
    hash.digest()
}

/// Refuses tables that do not hold exactly the entries that were committed.
pub(super) fn verify(tables: &Tables, expected: Sum) -> Result<(), Error> {
    compare("heads", heads(tables)?, expected)?;
    compare("values", values(tables)?, expected)
}

fn compare(table: &str, found: Sum, expected: Sum) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let detail = format!(
        "it holds {} entries where {} were committed, or others than those",
        found.count, expected.count
    );
    Err(Error::Corrupt { what: format!("table {table}"), detail })
}

fn heads(tables: &Tables) -> Result<Sum, Error> {
    let mut sum = Sum::default();
    for row in tables.db.snapshot().iter(&tables.heads) {
        let (key, row) = row.into_inner().map_err(|error| failed("read heads", &error))?;
        let key = std::str::from_utf8(&key)
            .map_err(|_| format::corrupt("heads", &key, "the key is not UTF-8"))?;
        sum.add(key, format::decode_head(key, &row)?.modified);
    }
    Ok(sum)
}

/// The newest version of each key, unless that is a deletion.
fn values(tables: &Tables) -> Result<Sum, Error> {
    let mut sum = Sum::default();
    let mut newest: Option<(Box<str>, Revision, bool)> = None;
    for row in tables.db.snapshot().iter(&tables.values) {
        let (row_key, row) = row.into_inner().map_err(|error| failed("read values", &error))?;
        let (key, revision) = format::split_value_key(&row_key)?;
        let deleted = format::is_tombstone(&row);
        match &mut newest {
            Some((last, modified, gone)) if &**last == key => {
                (*modified, *gone) = (revision, deleted);
            }
            Some(_) | None => {
                settle(&mut sum, newest.as_ref());
                newest = Some((key.into(), revision, deleted));
            }
        }
    }
    settle(&mut sum, newest.as_ref());
    Ok(sum)
}

fn settle(sum: &mut Sum, newest: Option<&(Box<str>, Revision, bool)>) {
    if let Some((key, modified, false)) = newest {
        sum.add(key, *modified);
    }
}

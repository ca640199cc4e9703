//! From the first layout to this one: what is there becomes the base, and history begins anew.
//!
//! ```text
//!   heads   key                created:8 modified:8                    sum:8
//!   values  key 00 revision:8  1 created:8 value | 2                   sum:8
//!   log     revision:8         what each commit changed, without values
//!   meta    name               content                                 sum:8
//! ```
//! The new tables are filled beside the old ones. The file that names the format changes when that is durable, and
//! then the old tables go: a crash anywhere in between begins again, or ends it. Whoever watched lists anew.

use std::{fs, path::Path, sync::Arc};

use bytes::Buf;
use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Slice};
use xxhash_rust::xxh3::Xxh3;

use super::{
    format,
    sum::Sum,
    tables::{Folded, Standing, Tables, failed},
    watermark,
};
use crate::{
    error::Error,
    model::{Head, Incarnation, Revision},
};

/// The tables that only the first layout has.
const FIRST: [&str; 4] = ["heads", "values", "log", "meta"];

/// How much is written at once.
const BATCH_BYTES: usize = 4 << 20;

const VALUE: u8 = 1;

/// Fills the base from the tables of the first layout. Does nothing if nothing was ever written to them, and refuses
/// what has lost something: the old tables go afterwards.
pub(super) fn from_first(tables: &Tables) -> Result<(), Error> {
    let (values, standing) = (first_table(tables, "values")?, first_table(tables, "meta")?);
    let snapshot = tables.db.snapshot();
    let is_empty = |table| snapshot.iter(table).next().is_none();
    let note = tables.path().join(watermark::FILE);
    if is_empty(&values) && is_empty(&standing) && !note.exists() {
        return Ok(());
    }
    let meta = |name: &str| {
        let row = snapshot.get(&standing, name);
        let row: Option<Slice> =
            row.map_err(|error| failed("read where the store stands", &error))?;
        let missing = || format::corrupt("meta", name.as_bytes(), "it is missing");
        open("meta", name.as_bytes(), &row.ok_or_else(missing)?).map(<[u8]>::to_vec)
    };
    let revision = Revision(u64::from_be_bytes(sized("head", meta("head")?)?));
    let expected = Sum::from_bytes(sized("sum", meta("sum")?)?);
    let incarnation = sized("incarnation", meta("incarnation")?)?;
    let incarnation = Incarnation(uuid::Uuid::from_bytes(incarnation));
    check_note(&note, incarnation, revision)?;
    tables.base.clear().map_err(|error| failed("empty the base", &error))?;
    let mut filling = Filling { tables, batch: tables.batch(), bytes: 0, sums: Default::default() };
    let mut newest: Option<(Slice, Slice)> = None;
    for row in snapshot.iter(&values) {
        let row = row.into_inner().map_err(|error| failed("read values", &error))?;
        if let Some(before) = newest.replace(row)
            && newest.as_ref().is_some_and(|now| key_of(&now.0) != key_of(&before.0))
        {
            filling.add(&before)?;
        }
    }
    newest.map_or(Ok(()), |last| filling.add(&last))?;
    filling.sums.0.compare("values", expected)?;
    let folded = Folded { revision, sum: filling.sums.1 };
    let now = Standing { compacted: revision, folded, incarnation };
    tables.put_standing(&mut filling.batch, &now);
    filling.write()
}

/// Refuses a directory that ends before the last commit that was noted. The note has the checksum of the first layout
/// too, so that nobody can read it later.
fn check_note(note: &Path, incarnation: Incarnation, head: Revision) -> Result<(), Error> {
    let row = fs::read(note).unwrap_or_default();
    let noted = open("meta", incarnation.to_string().as_bytes(), &row).ok();
    let noted: Option<[u8; 8]> = noted.and_then(|noted| noted.try_into().ok());
    match noted.map(|noted| Revision(u64::from_be_bytes(noted))) {
        Some(noted) if head < noted => {
            let detail = format!("commits up to {noted} were durable, now they end at {head}");
            Err(Error::Corrupt { what: "table meta".to_owned(), detail })
        }
        Some(_) | None => Ok(()),
    }
}

/// Removes the tables of the first layout, where they are still there.
pub(super) fn forget_first(tables: &Tables) -> Result<(), Error> {
    for name in FIRST {
        if tables.db.keyspace_exists(name) {
            let table = first_table(tables, name)?;
            let deleted = tables.db.delete_keyspace(table);
            deleted.map_err(|error| failed("remove the tables of the first layout", &error))?;
        }
    }
    Ok(())
}

fn first_table(tables: &Tables, name: &str) -> Result<Keyspace, Error> {
    let table = tables.db.keyspace(name, KeyspaceCreateOptions::default);
    table.map_err(|error| failed("open the tables of the first layout", &error))
}

struct Filling<'a> {
    tables: &'a Tables,
    batch: fjall::OwnedWriteBatch,
    bytes: usize,
    /// As the first layout has it, and as this one does.
    sums: (Sum, Sum),
}

impl Filling<'_> {
    /// Takes the newest version of a key, unless that is a deletion.
    fn add(&mut self, (row_key, row): &(Slice, Slice)) -> Result<(), Error> {
        let broken = |detail| format::corrupt("values", row_key, detail);
        let key = key_of(row_key).ok_or_else(|| broken("the key has no revision"))?;
        let modified = Revision((&row_key[key.len() + 1..]).get_u64());
        let key = std::str::from_utf8(key).map_err(|_| broken("the key is not UTF-8"))?;
        let mut body = open("values", row_key, row)?;
        if body.try_get_u8() != Ok(VALUE) {
            return Ok(());
        }
        let created = Revision(body.try_get_u64().map_err(|_| broken("short row"))?);
        let (first, now) = &mut self.sums;
        first.count += 1;
        first.hash ^= hash(&[key.as_bytes(), &modified.0.to_be_bytes()]);
        now.add(key, modified);
        let row = format::encode_base(key, Head { created, modified }, body);
        self.bytes += key.len() + row.len();
        self.batch.insert(&self.tables.base, Arc::<[u8]>::from(key.as_bytes()), row);
        if BATCH_BYTES < self.bytes { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        let batch = std::mem::replace(&mut self.batch, self.tables.batch());
        let written = batch.durability(Some(PersistMode::SyncAll)).commit();
        written.map_err(|error| failed("write the new layout", &error))
    }
}

/// The key that a row of `values` is a version of.
fn key_of(row_key: &[u8]) -> Option<&[u8]> {
    let (key, rest) = row_key.split_at_checked(row_key.len().checked_sub(9)?)?;
    (rest[0] == 0).then_some(key)
}

fn sized<const N: usize>(name: &str, content: Vec<u8>) -> Result<[u8; N], Error> {
    content.try_into().map_err(|_| format::corrupt("meta", name.as_bytes(), "wrong length"))
}

/// A row of the first layout without its checksum.
fn open<'a>(table: &str, key: &[u8], row: &'a [u8]) -> Result<&'a [u8], Error> {
    let broken = |detail| format::corrupt(table, key, detail);
    let at = row.len().checked_sub(8).ok_or_else(|| broken("short row"))?;
    let (body, mut sum) = row.split_at(at);
    if sum.get_u64() != checksum(table, key, body) {
        return Err(broken("the checksum does not match"));
    }
    Ok(body)
}

fn checksum(table: &str, key: &[u8], body: &[u8]) -> u64 {
    hash(&[table.as_bytes(), &key.len().to_be_bytes(), key, body])
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.digest()
}

#[cfg(test)]
mod tests;

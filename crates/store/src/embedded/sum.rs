//! A checksum over all current entries together, kept up with every commit and checked on opening.
//!
//! Each row guards itself, but a row that is gone guards nothing: a few wrong bits in the files
//! that say which other files belong to a table make fjall leave out rows without noticing. The
//! sum is the exclusive or over all entries of a hash of key and revision, so it can be changed in
//! one step per write and computed again from what is there.

use xxhash_rust::xxh3::xxh3_64_with_seed;

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

    /// Refuses what does not hold exactly the entries that were committed.
    pub fn compare(self, table: &str, expected: Self) -> Result<(), Error> {
        if self == expected {
            return Ok(());
        }
        let detail = format!(
            "it holds {} entries where {} were committed, or others than those",
            self.count, expected.count
        );
        Err(Error::Corrupt { what: format!("table {table}"), detail })
    }
}

fn hash(key: &str, modified: Revision) -> u64 {
    xxh3_64_with_seed(key.as_bytes(), modified.0)
}

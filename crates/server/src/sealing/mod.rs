//! Encryption at rest: which objects are sealed, with which key, and how servers agree on it.
//!
//! ```text
//!   sealing/use            the id of the key that everybody seals with
//!   sealing/ring           while a key is introduced: the new ring, sealed with the key before it
//!   sealing/servers/<id>   the ids of the keys that a server holds
//! ```
//! Whole objects are sealed, of every kind that has a sensitive field: annotations repeat what was
//! applied. They are plain in the memory of servers only.
mod agree;
mod follow;
mod places;
mod rotate;
mod status;

pub use agree::{Error, KeySource, agree};
pub use follow::follow;
pub use rotate::Rotation;

use bytes::Bytes;
use orrery_seal::{KeyId, Keyring, is_sealed};
use orrery_store::Sealing;
use parking_lot::RwLock;

/// Seals with the ring that it holds at the moment.
#[derive(Debug)]
pub struct Sealer {
    /// Where objects with sensitive fields are kept.
    prefixes: Vec<String>,
    /// Where the ring came from, so that a new key can be put there too.
    source: KeySource,
    ring: RwLock<Option<Keyring>>,
}

impl Sealer {
    fn new(prefixes: Vec<String>, source: KeySource, ring: Option<Keyring>) -> Self {
        Self { prefixes, source, ring: RwLock::new(ring) }
    }

    pub fn ring(&self) -> Option<Keyring> {
        self.ring.read().clone()
    }

    pub fn prefixes(&self) -> &[String] {
        &self.prefixes
    }

    fn covers(&self, key: &str) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }

    /// Goes on with another ring, after it is kept where the ring came from. A ring that only knows
    /// the same keys is used at once.
    fn replace(&self, ring: Keyring) -> Result<(), Error> {
        let known: Vec<KeyId> = self.ring().iter().flat_map(Keyring::ids).collect();
        let learned = ring.ids().any(|id| !known.contains(&id));
        match &self.source {
            KeySource::File { path, .. } => match ring.save(path) {
                // The order of keys is agreed on in the store; a file that cannot be written will do.
                Err(error) if !learned => tracing::debug!(%error, "the key file stays as it is"),
                saved => saved?,
            },
            KeySource::Given(_) if learned => return Err(Error::CannotKeep),
            KeySource::Given(_) | KeySource::Fresh | KeySource::None => {}
        }
        *self.ring.write() = Some(ring);
        Ok(())
    }
}

impl Sealing for Sealer {
    fn seal(&self, key: &str, plain: Bytes) -> Result<Bytes, String> {
        if !self.covers(key) {
            return Ok(plain);
        }
        match &*self.ring.read() {
            Some(ring) => Ok(ring.seal(key.as_bytes(), &plain).into()),
            None => Err("nothing secret is kept without an encryption key; start the server with \
                         --encryption-key-file"
                .to_owned()),
        }
    }

    /// What was stored before there was a key is read as it is.
    fn open(&self, key: &str, kept: Bytes) -> Result<Bytes, String> {
        if !self.covers(key) || !is_sealed(&kept) {
            return Ok(kept);
        }
        let ring = self.ring.read();
        let ring = ring.as_ref().ok_or("it is sealed, and there is no encryption key")?;
        let plain = ring.open(key.as_bytes(), &kept).map_err(|error| error.to_string())?;
        Ok(Bytes::copy_from_slice(&plain))
    }
}

//! The keys: the first one encrypts, all of them decrypt.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Of AES-256.
pub(crate) const KEY_BYTES: usize = 32;
/// Enough to tell the keys of one ring apart, and nothing about them.
pub(crate) const KEY_ID_BYTES: usize = 8;
/// A ring grows by one with each rotation, and keys that seal nothing any more are taken out.
const KEYS_MAX: usize = 64;

/// Why a text is no ring of keys. It never quotes the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    #[error("there is no key in it; make one with: openssl rand -base64 32")]
    Empty,
    #[error(
        "key {position} is not {KEY_BYTES} bytes in base64; make one with: openssl rand -base64 32"
    )]
    Malformed { position: usize },
    #[error("key {position} stands there twice")]
    Twice { position: usize },
    #[error("there are more than {KEYS_MAX} keys; take out those that seal nothing any more")]
    TooMany,
}

/// A text that is no key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key id is {} hexadecimal digits, as `orrery secrets status` prints them", 2 * KEY_ID_BYTES)]
pub struct KeyIdError;

/// Names a key without saying anything about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub(crate) [u8; KEY_ID_BYTES]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        if text.len() != 2 * KEY_ID_BYTES || !text.is_ascii() {
            return Err(KeyIdError);
        }
        let mut id = [0; KEY_ID_BYTES];
        for (byte, at) in id.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| KeyIdError)?;
        }
        Ok(Self(id))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: KeyId,
    pub(crate) bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"orrery key id\0");
        hash.update(bytes.as_slice());
        let digest: [u8; 32] = hash.finalize().into();
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest[..KEY_ID_BYTES]);
        Self { id: KeyId(id), bytes }
    }

    fn generate() -> Self {
        Self::new(random())
    }

    fn parse(word: &str, position: usize) -> Result<Self, KeyringError> {
        let malformed = KeyringError::Malformed { position };
        let decoded = Zeroizing::new(BASE64.decode(word).map_err(|_| malformed.clone())?);
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if decoded.len() != KEY_BYTES {
            return Err(malformed);
        }
        bytes.copy_from_slice(&decoded);
        Ok(Self::new(bytes))
    }
}

/// One or more keys. Written as text, it is one key in base64 per line, the one that encrypts first;
/// what follows a `#` is a remark. Commas separate keys as well, for environment variables.
#[derive(Clone)]
pub struct Keyring {
    first: Key,
    others: Vec<Key>,
}

impl Keyring {
    /// A ring with one fresh key.
    pub fn generate() -> Self {
        Self { first: Key::generate(), others: Vec::new() }
    }

    /// The same ring with a fresh key in front: it encrypts from now on, the others still decrypt.
    #[must_use]
    pub fn rotated(&self) -> Self {
        let others = std::iter::once(&self.first).chain(&self.others).cloned().collect();
        Self { first: Key::generate(), others }
    }

    /// The same ring without the keys that only decrypt, for when nothing is sealed by them any more.
    #[must_use]
    pub fn without_older(&self) -> Self {
        Self { first: self.first.clone(), others: Vec::new() }
    }

    /// The same ring with the keys of another behind its own.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let mut joined = self.clone();
        let theirs = std::iter::once(&other.first).chain(&other.others);
        let new = theirs.filter(|key| self.find(key.id).is_none()).cloned();
        joined.others.extend(new);
        joined
    }

    /// The same keys with this one in front; `None` if it is not among them.
    #[must_use]
    pub fn led_by(&self, id: KeyId) -> Option<Self> {
        let first = self.find(id)?.clone();
        let others = std::iter::once(&self.first).chain(&self.others);
        Some(Self { first, others: others.filter(|key| key.id != id).cloned().collect() })
    }

    /// The key that encrypts.
    pub fn current(&self) -> KeyId {
        self.first.id
    }

    /// Every key, the one that encrypts first.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> {
        std::iter::once(&self.first).chain(&self.others).map(|key| key.id)
    }

    /// As it stands in a file. A secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        for key in std::iter::once(&self.first).chain(&self.others) {
            let line = Zeroizing::new(BASE64.encode(key.bytes.as_slice()));
            text.push_str(&line);
            text.push_str(&format!(" # {}\n", key.id));
        }
        text
    }

    pub(crate) fn first(&self) -> &Key {
        &self.first
    }

    pub(crate) fn find(&self, id: KeyId) -> Option<&Key> {
        std::iter::once(&self.first).chain(&self.others).find(|key| key.id == id)
    }
}

impl FromStr for Keyring {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, KeyringError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ','));
        let mut keys: Vec<Key> = Vec::new();
        for (index, word) in words.filter(|word| !word.is_empty()).enumerate() {
            let position = index + 1;
            let key = Key::parse(word, position)?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(KeyringError::Twice { position });
            }
            if keys.len() == KEYS_MAX {
                return Err(KeyringError::TooMany);
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or(KeyringError::Empty)?;
        Ok(Self { first, others: keys.collect() })
    }
}

/// Leaves the keys out.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("ids", &self.ids().collect::<Vec<_>>()).finish()
    }
}

/// Fresh bytes out of the operating system, which nobody can guess.
pub(crate) fn random<const N: usize>() -> Zeroizing<[u8; N]> {
    let mut bytes = Zeroizing::new([0; N]);
    SystemRandom::new()
        .fill(bytes.as_mut_slice())
        .expect("a system without randomness cannot make keys");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_word(byte: u8) -> String {
        BASE64.encode([byte; KEY_BYTES])
    }

    #[track_caller]
    fn refused(text: &str, expect: KeyringError) {
        assert_eq!(text.parse::<Keyring>().expect_err("not a ring"), expect);
    }

    #[test]
    fn what_is_written_is_read() {
        let ring = Keyring::generate().rotated().rotated();
        let read: Keyring = ring.to_text().parse().expect("what we write we read");
        assert_eq!(read.ids().collect::<Vec<_>>(), ring.ids().collect::<Vec<_>>());
        assert_eq!(ring.ids().count(), 3);
        assert_eq!(read.without_older().ids().collect::<Vec<_>>(), [ring.current()]);
    }

    #[test]
    fn rings_join_and_another_key_leads() {
        let (one, two) = (Keyring::generate(), Keyring::generate());
        let both = one.joined(&two);
        assert_eq!(both.ids().collect::<Vec<_>>(), [one.current(), two.current()]);
        assert_eq!(both.joined(&two).ids().count(), 2, "a key stands there once");
        let led = both.led_by(two.current()).expect("it is there");
        assert_eq!(led.ids().collect::<Vec<_>>(), [two.current(), one.current()]);
        assert!(one.led_by(two.current()).is_none());
        assert_eq!(one.current().to_string().parse(), Ok(one.current()));
        for bad in ["", "12", "zzzzzzzzzzzzzzzz", "ääääääää"] {
            assert_eq!(bad.parse::<KeyId>(), Err(KeyIdError));
        }
    }

    #[test]
    fn lines_commas_and_remarks() {
        let (one, two) = (mk_word(1), mk_word(2));
        for text in [
            format!("{one}\n{two}\n"),
            format!("{one},{two}"),
            format!("# keys\n\n  {one} # new\r\n{two}#old"),
        ] {
            let ring: Keyring = text.parse().expect("two keys");
            assert_eq!(ring.ids().count(), 2, "{text}");
            assert_eq!(ring.current(), one.parse::<Keyring>().expect("one key").current());
        }
    }

    #[test]
    fn what_is_no_ring_is_refused_without_quoting_it() {
        refused("", KeyringError::Empty);
        refused("# nothing", KeyringError::Empty);
        refused("secret!", KeyringError::Malformed { position: 1 });
        refused(&BASE64.encode([0; 16]), KeyringError::Malformed { position: 1 });
        refused(&format!("{0} {0}", mk_word(1)), KeyringError::Twice { position: 2 });
        let many: Vec<String> = (0..=KEYS_MAX as u8).map(mk_word).collect();
        refused(&many.join("\n"), KeyringError::TooMany);
    }

    #[test]
    fn debug_shows_no_key() {
        let ring = Keyring::generate();
        let word = ring.to_text().split(' ').next().expect("a key").to_owned();
        assert!(!format!("{ring:?}").contains(&word));
    }
}

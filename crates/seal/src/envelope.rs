//! The form of what is sealed.
//!
//! ```text
//!   00 4f 53 01 | key id (8) | nonce (12) | wrapped data key (32 + 16) | ciphertext (n + 16)
//!   magic         which key    of the wrapping                           by the data key, nonce 0
//! ```
//! AES-256-GCM twice: the ring's key wraps the data key under a random nonce, the data key, which is
//! used once and never again, encrypts the bytes under the nonce 0. Everything before a ciphertext and
//! the context are its associated data.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use crate::keyring::{KEY_BYTES, KEY_ID_BYTES, KeyId, Keyring, random};

/// Begins with a zero, with which neither a protobuf message nor text does: bytes that were stored
/// before there was a key are told apart without a guess.
const MAGIC: [u8; 4] = [0x00, b'O', b'S', 1];
const TAG_BYTES: usize = 16;
const NONCE_AT: usize = MAGIC.len() + KEY_ID_BYTES;
const WRAPPED_AT: usize = NONCE_AT + NONCE_LEN;
const BODY_AT: usize = WRAPPED_AT + KEY_BYTES + TAG_BYTES;

/// Why an envelope stays closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("it is not sealed")]
    NotSealed,
    #[error("it is sealed with key {0}, which is not among the given ones; add that key again")]
    UnknownKey(KeyId),
    #[error("it is damaged, or it was sealed for another place")]
    Damaged,
}

/// Whether these bytes are an envelope; if not, they are what they were before sealing began.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

impl Keyring {
    /// Seals with the ring's first key. `context` says what it is and where it is kept; the same must
    /// be given to open it.
    pub fn seal(&self, context: &[u8], plain: &[u8]) -> Vec<u8> {
        let data_key = random::<KEY_BYTES>();
        let nonce = random::<NONCE_LEN>();
        let mut sealed = Vec::with_capacity(BODY_AT + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&MAGIC);
        sealed.extend_from_slice(&self.first().id.0);
        sealed.extend_from_slice(nonce.as_slice());
        let mut wrapped = data_key.to_vec();
        encrypt(&self.first().bytes, *nonce, &[&sealed, context].concat(), &mut wrapped);
        sealed.append(&mut wrapped);
        let mut body = plain.to_vec();
        encrypt(&data_key, [0; NONCE_LEN], &[&sealed, context].concat(), &mut body);
        sealed.append(&mut body);
        sealed
    }

    /// What was sealed, if it was for this context and by a key of this ring.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let id = sealed_by(sealed)?;
        let key = self.find(id).ok_or(OpenError::UnknownKey(id))?;
        if sealed.len() < BODY_AT + TAG_BYTES {
            return Err(OpenError::Damaged);
        }
        let (head, rest) = sealed.split_at(WRAPPED_AT);
        let (wrapped, body) = rest.split_at(KEY_BYTES + TAG_BYTES);
        let nonce = head[NONCE_AT..].try_into().map_err(|_| OpenError::Damaged)?;
        let unwrapped = decrypt(&key.bytes, nonce, &[head, context].concat(), wrapped)?;
        let mut data_key = Zeroizing::new([0; KEY_BYTES]);
        data_key.copy_from_slice(&unwrapped);
        decrypt(&data_key, [0; NONCE_LEN], &[head, wrapped, context].concat(), body)
    }

    /// Whether these bytes are sealed with the key that encrypts now; if not, seal them again.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        sealed_by(sealed) == Ok(self.current())
    }
}

/// The key that sealed these bytes.
pub fn sealed_by(sealed: &[u8]) -> Result<KeyId, OpenError> {
    if !is_sealed(sealed) {
        return Err(OpenError::NotSealed);
    }
    let id = sealed.get(MAGIC.len()..NONCE_AT).ok_or(OpenError::Damaged)?;
    Ok(KeyId(id.try_into().map_err(|_| OpenError::Damaged)?))
}

fn cipher(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("the key has the cipher's length"))
}

fn encrypt(key: &[u8; KEY_BYTES], nonce: [u8; NONCE_LEN], associated: &[u8], bytes: &mut Vec<u8>) {
    let nonce = Nonce::assume_unique_for_key(nonce);
    cipher(key)
        .seal_in_place_append_tag(nonce, Aad::from(associated), bytes)
        .expect("an object is far smaller than the cipher's limit of 64 GiB");
}

fn decrypt(
    key: &[u8; KEY_BYTES],
    nonce: [u8; NONCE_LEN],
    associated: &[u8],
    bytes: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let mut plain = Zeroizing::new(bytes.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = cipher(key).open_in_place(nonce, Aad::from(associated), &mut plain);
    let length = opened.map_err(|_| OpenError::Damaged)?.len();
    plain.truncate(length);
    Ok(plain)
}

#[cfg(test)]
mod tests;

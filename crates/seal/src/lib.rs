//! Encryption at rest: what is in the store is read only by those who hold the key.
//!
//! ```text
//!   key file, ORRERY_ENCRYPTION_KEY --> Keyring { first key encrypts, every key decrypts }
//!                                          |
//!   plain bytes --seal(context)--> envelope: id of the key | wrapped data key | ciphertext
//!   plain bytes <--open(context)-- envelope
//! ```
//!
//! Every envelope has a data key of its own, wrapped by a key of the ring. The context (the place
//! where the envelope is kept) is authenticated with it, so that an envelope that was moved to
//! another place does not open there.
//!
//! Owns: the ring, its file, and the form of an envelope.
//!
//! Not in it: what is sealed and where it is kept (the hub and the server decide that), and when a
//! key is rotated. Nothing here prints a key: every type that holds one hides it from `Debug`.

mod envelope;
mod file;
mod keyring;

pub use envelope::{OpenError, is_sealed, sealed_by};
pub use file::FileError;
pub use keyring::{KeyId, KeyIdError, Keyring, KeyringError};

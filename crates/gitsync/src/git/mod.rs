//! Repositories, by the git program.
//!
//! A copy without a working tree is kept in a folder of its own; it can be thrown away at any time.
pub mod address;
mod command;
mod credentials;
mod error;
mod keys;
mod objects;
mod remote;
mod ssh;

pub use address::Address;
pub use credentials::Opened;
pub use error::GitError;
pub use keys::Signer;
pub use objects::{Blob, Commit, Copy, Listed};
pub use remote::{Pushed, Remote};

/// Whether a text is the name of an object as git prints it.
pub(crate) fn is_id(text: &str) -> bool {
    (text.len() == 40 || text.len() == 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

//! What can be wrong with the three PEM files. Every message names the file and what to do about it,
//! because the reader is a person at a shell.

use std::fmt;
use std::path::PathBuf;

use crate::identity::IdentityError;

/// One of the three files that together turn TLS on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    Root,
    Certificate,
    Key,
}

impl fmt::Display for TlsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "the root certificate",
            Self::Certificate => "the certificate",
            Self::Key => "the private key",
        })
    }
}

/// Why TLS could not be set up. Nothing in it comes from inside a key file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "TLS needs the root certificate, the certificate and the private key together, or none of \
         them; missing: {}", list(.missing)
    )]
    Incomplete { missing: Vec<TlsPart> },
    #[error("{} does not exist", .file.display())]
    NotFound { file: PathBuf },
    #[error("{} is not a regular file", .file.display())]
    NotAFile { file: PathBuf },
    #[error("cannot read {}", .file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error(
        "{file} has unix permission {mode:03o}, only 400 and 600 are accepted; run: chmod 600 {file}",
        file = .file.display()
    )]
    Permission { file: PathBuf, mode: u32 },
    #[error(
        "{file} has mode {mode:03o}: others than its owner may change it; run: chmod go-w {file}",
        file = .file.display()
    )]
    Writable { file: PathBuf, mode: u32 },
    #[error("{} is larger than {max} bytes, which no PEM file of ours is", .file.display())]
    TooLarge { file: PathBuf, max: u64 },
    #[error("{} is not valid PEM: {reason}", .file.display())]
    Pem { file: PathBuf, reason: &'static str },
    #[error("{} holds no certificate (no section BEGIN CERTIFICATE)", .file.display())]
    NoCertificate { file: PathBuf },
    #[error("certificate {position} in {} cannot be used: {reason}", .file.display())]
    Certificate { file: PathBuf, position: usize, reason: String },
    #[error("the certificate in {} states no usable identity", .file.display())]
    Identity { file: PathBuf, source: IdentityError },
    #[error("{} holds no private key (no section BEGIN PRIVATE KEY)", .file.display())]
    NoKey { file: PathBuf },
    #[error("{} holds {count} private keys, keep exactly one", .file.display())]
    ManyKeys { file: PathBuf, count: usize },
    #[error(
        "the private key in {file} is encrypted; decrypt it: openssl pkey -in {file} -out NEW-FILE",
        file = .file.display()
    )]
    EncryptedKey { file: PathBuf },
    #[error(
        "the private key in {} cannot be used: {reason}; use RSA with at least 2048 bits, P-256, P-384 \
         or Ed25519", .file.display()
    )]
    UnusableKey { file: PathBuf, reason: String },
    #[error(
        "the private key in {} does not belong to the certificate in {}",
        .key.display(), .certificate.display()
    )]
    KeyMismatch { key: PathBuf, certificate: PathBuf },
}

fn list(parts: &[TlsPart]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    parts.join(", ")
}

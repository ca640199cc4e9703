//! What is stored about files and their owners.
use super::{Artifact, ArtifactPath};
use crate::error::Error;
use orrery_store::Entry;
use prost::Message;
use sha2::{Digest, Sha256};

/// One file.
#[derive(Clone, PartialEq, Message)]
pub struct FileRecord {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub size_bytes: u64,
    /// SHA-256 of the whole, in hexadecimal.
    #[prost(string, tag = "3")]
    pub digest: String,
    /// SHA-256 of each chunk, in order.
    #[prost(string, repeated, tag = "4")]
    pub chunks: Vec<String>,
}

/// The object that files belong to.
#[derive(Clone, PartialEq, Message)]
pub struct OwnerRecord {
    /// The full name of the kind's message.
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub project: String,
    #[prost(string, tag = "3")]
    pub name: String,
}

pub fn read<T: Message + Default>(entry: &Entry) -> Result<T, Error> {
    T::decode(entry.value.as_ref())
        .map_err(|error| Error::Internal(format!("cannot read {}: {error}", entry.key)))
}

pub fn artifact(record: &FileRecord) -> Result<Artifact, Error> {
    let path: ArtifactPath =
        record.path.parse().map_err(|error| Error::Internal(format!("stored {error}")))?;
    Ok(Artifact { path, size_bytes: record.size_bytes, digest: record.digest.clone() })
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

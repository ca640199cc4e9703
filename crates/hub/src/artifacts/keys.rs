//! Where artifacts live in the engine.
use super::path::ArtifactPath;

pub const OWNERS: &str = "artifacts/owners/";
pub const FILES: &str = "artifacts/files/";
pub const PINS: &str = "artifacts/pins/";
const CHUNKS: &str = "artifacts/chunks/";

pub fn owner(uid: &str) -> String {
    format!("{OWNERS}{uid}")
}

/// Of every file of an object.
pub fn files(uid: &str) -> String {
    format!("{FILES}{uid}/")
}

pub fn file(uid: &str, path: &ArtifactPath) -> String {
    format!("{FILES}{uid}/{path}")
}

pub fn pin(digest: &str) -> String {
    format!("{PINS}{digest}")
}

pub fn chunk(digest: &str) -> String {
    format!("{CHUNKS}{digest}")
}

//! The assignments on disk, one file in the folder of each instance.
//!
//! One file each, because then a change costs what changed, and a broken file concerns one instance.
//!
//! ```text
//!  "ORRA"  version (u32)  SHA-256 of the rest  Assignment as protobuf
//! ```
use crate::disk::{self, Survive};
use crate::model::InstanceId;
use orrery_proto::fleet::v1::Assignment;
use prost::Message;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 4] = b"ORRA";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u32>() + 32;

/// The folder with one folder per instance, in the data folder.
pub(crate) const INSTANCES: &str = "instances";

/// Where the agent keeps what it knows of its instances.
#[derive(Clone, Debug)]
pub(crate) struct Assignments {
    instances: PathBuf,
    trash: PathBuf,
}

/// Why bytes are not an assignment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Corrupt {
    #[error("it does not look like an assignment")]
    NotOurs,
    #[error("it has version {0}, this agent knows {VERSION}")]
    Version(u32),
    #[error("its checksum does not match")]
    Checksum,
    #[error("its content cannot be decoded")]
    Content,
}

impl Assignments {
    /// Makes the folders and deletes what an interrupted removal left.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let this = Self { instances: data_dir.join(INSTANCES), trash: data_dir.join("trash") };
        disk::make_folder(&this.instances)?;
        disk::make_folder(&this.trash)?;
        for entry in fs::read_dir(&this.trash)? {
            delete(&entry?.path())?;
        }
        Ok(this)
    }

    /// One folder per instance.
    pub(crate) fn instances(&self) -> &Path {
        &self.instances
    }

    /// Every instance that has a folder. Nothing beside an id means that its assignment is missing
    /// or broken: something may run there, but what is wanted is not known.
    pub(crate) fn load(&self) -> io::Result<BTreeMap<InstanceId, Option<Assignment>>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.instances)? {
            let entry = entry?;
            match entry.file_name().to_str().and_then(InstanceId::new) {
                Some(id) => drop(found.insert(id, load_one(&entry.path()))),
                None => tracing::warn!(path = %entry.path().display(), "not an instance; ignored"),
            }
        }
        Ok(found)
    }

    /// Writes it down so that it survives a power cut.
    pub(crate) fn save(&self, id: &InstanceId, assignment: &Assignment) -> io::Result<()> {
        let folder = self.instances.join(id.as_str());
        disk::make_folder(&folder)?;
        disk::write(&file(&folder), &encode(assignment), Survive::PowerCut)
    }

    /// Deletes the folder of an instance. It vanishes at once, then in pieces where nobody looks.
    pub(crate) fn discard(&self, id: &InstanceId) -> io::Result<()> {
        let gone = self.trash.join(id.as_str());
        delete(&gone)?;
        match fs::rename(self.instances.join(id.as_str()), &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => delete(&gone),
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("assignment")
}

/// One file that cannot be read must not keep the agent from the others.
fn load_one(folder: &Path) -> Option<Assignment> {
    let path = file(folder);
    let bytes = match disk::read(&path) {
        Ok(bytes) => bytes?,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "an assignment cannot be read");
            return None;
        }
    };
    decode(&bytes).inspect_err(|why| set_aside(&path, why)).ok()
}

/// Keeps the broken file for whoever wants to know, out of the way.
fn set_aside(path: &Path, why: &Corrupt) {
    let aside = path.with_added_extension("corrupt");
    let moved = fs::rename(path, &aside);
    let (path, aside) = (path.display(), aside.display());
    match moved {
        Ok(()) => tracing::warn!(%path, %aside, %why, "a broken assignment was set aside"),
        Err(error) => tracing::warn!(%path, %why, %error, "a broken assignment is in the way"),
    }
}

fn delete(path: &Path) -> io::Result<()> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn encode(assignment: &Assignment) -> Vec<u8> {
    let body = assignment.encode_to_vec();
    let version = VERSION.to_le_bytes();
    [MAGIC.as_slice(), &version, &Sha256::digest(&body), &body].concat()
}

fn decode(bytes: &[u8]) -> Result<Assignment, Corrupt> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(Corrupt::NotOurs)?;
    let rest = header.strip_prefix(MAGIC).ok_or(Corrupt::NotOurs)?;
    let (version, checksum) = rest.split_first_chunk().ok_or(Corrupt::NotOurs)?;
    match u32::from_le_bytes(*version) {
        VERSION if Sha256::digest(body).as_slice() != checksum => Err(Corrupt::Checksum),
        VERSION => Assignment::decode(body).map_err(|_| Corrupt::Content),
        other => Err(Corrupt::Version(other)),
    }
}

#[cfg(test)]
mod tests;

//! What was asked for, in files: it outlives the driver.
use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const RECORD: &str = "machine.json";
pub(super) const USER_DATA: &str = "user-data";

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: String,
    pub key: String,
    pub name: String,
    pub class: String,
    pub address: Ipv4Addr,
    /// All steps of the create are done.
    pub started: bool,
}

/// The folder of all machines.
pub(super) struct Records {
    root: PathBuf,
}

/// Held while machines are made or deleted, by one of all drivers that share the folder. Dropping it
/// lets go.
pub(super) struct Lock {
    _file: File,
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::internal(format!("{what} {}: {error}", path.display()))
}

/// The lock is no folder, and not every folder is a machine.
fn is_no_machine(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

impl Records {
    pub fn open(root: &Path) -> Result<Self, Error> {
        fs::create_dir_all(root).map_err(|error| failed("make the folder", root, &error))?;
        // Join tokens are in here.
        fs::set_permissions(root, Permissions::from_mode(0o700))
            .map_err(|error| failed("protect the folder", root, &error))?;
        let root = root.canonicalize().map_err(|error| failed("find the folder", root, &error))?;
        Ok(Self { root })
    }

    pub fn folder(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    pub async fn lock(&self) -> Result<Lock, Error> {
        let path = self.root.join("lock");
        let locked = tokio::task::spawn_blocking(move || {
            let file = File::create(&path).map_err(|error| failed("open", &path, &error))?;
            file.lock().map_err(|error| failed("lock", &path, &error))?;
            Ok(Lock { _file: file })
        });
        locked.await.map_err(|_| Error::internal("the wait for the lock was broken off"))?
    }

    /// `None` if there is none. What cannot be read is an error: it may stand for a machine.
    pub fn read(&self, id: &str) -> Result<Option<Record>, Error> {
        let path = self.folder(id).join(RECORD);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if is_no_machine(error.kind()) => return Ok(None),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let broken = |error| Error::internal(format!("{} is broken: {error}", path.display()));
        serde_json::from_str(&text).map(Some).map_err(broken)
    }

    /// Whole or not at all: written beside and renamed.
    pub fn write(&self, record: &Record, _lock: &Lock) -> Result<(), Error> {
        let folder = self.folder(&record.id);
        fs::create_dir_all(&folder).map_err(|error| failed("make the folder", &folder, &error))?;
        let text = serde_json::to_string_pretty(record)
            .map_err(|error| Error::internal(format!("cannot say a record: {error}")))?;
        let (path, beside) = (folder.join(RECORD), folder.join("machine.json.new"));
        fs::write(&beside, text).map_err(|error| failed("write", &beside, &error))?;
        fs::rename(&beside, &path).map_err(|error| failed("write", &path, &error))
    }

    /// Only root reads it: a join token may be in it. Executable, as it may be a script.
    pub fn write_user_data(&self, id: &str, text: &str) -> Result<(), Error> {
        let path = self.folder(id).join(USER_DATA);
        fs::write(&path, text).map_err(|error| failed("write", &path, &error))?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(|error| failed("protect", &path, &error))
    }

    pub fn remove(&self, id: &str, _lock: &Lock) -> Result<(), Error> {
        let folder = self.folder(id);
        match fs::remove_dir_all(&folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("remove", &folder, &error)),
        }
    }

    pub fn all(&self) -> Result<Vec<Record>, Error> {
        let entries =
            fs::read_dir(&self.root).map_err(|error| failed("read", &self.root, &error))?;
        let mut records = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("read", &self.root, &error))?;
            if let Some(record) = self.read(&entry.file_name().to_string_lossy())? {
                records.push(record);
            }
        }
        records.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(records)
    }
}

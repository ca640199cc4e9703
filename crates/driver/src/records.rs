//! What was asked of a driver that makes machines on its own machine, in files: it outlives the driver.
use crate::{Error, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Digest;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const RECORD: &str = "machine.json";
pub(crate) const USER_DATA: &str = "user-data";

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record<E> {
    pub id: String,
    pub key: String,
    pub name: String,
    pub class: String,
    /// All steps of the create are done.
    pub started: bool,
    /// What else the driver has to remember.
    #[serde(flatten)]
    pub extra: E,
}

/// The folder of all machines.
pub(crate) struct Records {
    root: PathBuf,
}

/// Held while machines are made or deleted, by one of all drivers that share the folder. Dropping it
/// lets go.
pub(crate) struct Lock {
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
    pub fn read<E: DeserializeOwned>(&self, id: &str) -> Result<Option<Record<E>>, Error> {
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
    pub fn write<E: Serialize>(&self, record: &Record<E>, _lock: &Lock) -> Result<(), Error> {
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

    pub fn all<E: DeserializeOwned>(&self) -> Result<Vec<Record<E>>, Error> {
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

/// Enough of a hash to tell machines apart and still fit into the name of a network device.
const ID_LENGTH: usize = 8;

/// What a machine is known by. A server of the first contract sends no key; there the name, which is
/// unique for a class, has to do.
pub(crate) fn machine_key(request: &Request) -> Result<String, Error> {
    match (request.idempotency_key.as_str(), request.machine_name.as_str()) {
        ("", "") => Err(Error::invalid("the operation names no machine")),
        ("", name) => Ok(format!("{}#{name}", request.class)),
        (key, _) => Ok(key.to_owned()),
    }
}

/// The id of the machine that was or will be made for a key.
pub(crate) fn id_of(key: &str) -> String {
    short_hash(key, ID_LENGTH)
}

/// The id of the machine that an operation is about: by the provider id, or by its key.
pub(crate) fn asked_id(request: &Request, prefix: &str) -> Result<String, Error> {
    let id = match request.machine_id.strip_prefix(prefix) {
        Some(id) => id.to_owned(),
        None if request.machine_id.is_empty() => id_of(&machine_key(request)?),
        None => request.machine_id.clone(),
    };
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(id) } else { Err(Error::invalid(format!("{id:?} is no machine of this driver"))) }
}

pub(crate) fn short_hash(text: &str, length: usize) -> String {
    let mut hash = format!("{:x}", sha2::Sha256::digest(text));
    hash.truncate(length);
    hash
}

/// Whether a program is found along PATH.
pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

//! What the controller intends, on disk: one small JSON file per object, replaced as a whole.
//!
//! An operation writes down what it is about to do, does it, and writes down that it is done. After a
//! crash the entries that are not done say what to finish or to undo.
use crate::{
    error::{Doing, Error, Result},
    volume::{Labels, Media, Params, Size, Source, VolumeName},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    marker::PhantomData,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Entries may hold the secret of a Ceph user, so they are for the controller's own user only.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// How far an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Creating,
    Ready,
    /// On its way to a larger size.
    Growing(Size),
    Deleting,
}

impl Phase {
    /// Whether the object is whole, and so one that callers may see and use.
    pub fn is_there(self) -> bool {
        match self {
            Self::Ready | Self::Growing(_) => true,
            Self::Creating | Self::Deleting => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeEntry {
    pub name: VolumeName,
    pub size: Size,
    pub media: Media,
    pub labels: Labels,
    pub created: Timestamp,
    pub source: Option<Source>,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    pub name: VolumeName,
    pub volume: VolumeName,
    pub media: Media,
    pub size: Size,
    pub labels: Labels,
    pub created: Timestamp,
    pub phase: Phase,
}

/// That a volume is wanted as a device, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MappingEntry {
    pub name: VolumeName,
    pub params: Params,
}

/// The entries of one kind, in a folder of their own. All methods block for the time of a small write.
pub struct Ledger<T> {
    folder: PathBuf,
    entries: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Ledger<T> {
    pub fn open(folder: PathBuf) -> Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE);
        builder.create(&folder).doing(|| format!("create the folder {}", folder.display()))?;
        Ok(Self { folder, entries: PhantomData })
    }

    fn path(&self, name: &VolumeName) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    pub fn get(&self, name: &VolumeName) -> Result<Option<T>> {
        read(&self.path(name))
    }

    /// Returns once the entry would survive a loss of power.
    pub fn put(&self, name: &VolumeName, entry: &T) -> Result<()> {
        let path = self.path(name);
        let text = serde_json::to_vec_pretty(entry).map_err(|error| {
            Error::Invalid(format!("cannot encode the entry of {name}: {error}"))
        })?;
        let partial = path.with_extension("partial");
        write(&partial, &text).doing(|| format!("write {}", partial.display()))?;
        fs::rename(&partial, &path).doing(|| format!("replace {}", path.display()))?;
        self.sync()
    }

    pub fn remove(&self, name: &VolumeName) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(format!("remove {}", path.display()), error)),
            Ok(()) => self.sync(),
        }
    }

    /// All entries, sorted by name. What disappears while we look is left out.
    pub fn list(&self) -> Result<Vec<T>> {
        let doing = || format!("list {}", self.folder.display());
        let mut paths = Vec::new();
        for file in fs::read_dir(&self.folder).doing(doing)? {
            let path = file.doing(doing)?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().filter_map(|path| read(path).transpose()).collect()
    }

    fn sync(&self) -> Result<()> {
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.doing(|| format!("sync {}", self.folder.display()))
    }
}

/// Where the kernel hands out ids that nobody else has.
const NEW_ID: &str = "/proc/sys/kernel/random/uuid";

/// The id of the books in a folder, made when they are first opened. Whoever registers with it is known
/// to have these books, and no others.
pub fn id(folder: &Path) -> Result<String> {
    let path = folder.join("id");
    match fs::read_to_string(&path) {
        Ok(known) if !known.trim().is_empty() => return Ok(known.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(format!("read {}", path.display()), error)),
    }
    let id = fs::read_to_string(NEW_ID).doing(|| format!("read {NEW_ID}"))?.trim().to_owned();
    let partial = path.with_extension("partial");
    write(&partial, id.as_bytes()).doing(|| format!("write {}", partial.display()))?;
    fs::rename(&partial, &path).doing(|| format!("name {}", path.display()))?;
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.doing(|| format!("sync {}", folder.display()))?;
    Ok(id)
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Error::Lost(format!("{} cannot be read: {error}", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, MappingEntry};
    use crate::volume::{CephImage, Params, Secret, VolumeName};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn books_keep_their_id_and_others_have_another() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = super::id(one.path()).unwrap();
        assert!(id.len() > 30, "{id}");
        assert_eq!(super::id(one.path()).unwrap(), id);
        assert_ne!(super::id(two.path()).unwrap(), id);
        std::fs::write(one.path().join("id"), "").unwrap();
        assert_ne!(super::id(one.path()).unwrap(), id, "one that was cut short is made anew");
    }

    #[test]
    fn entries_are_replaced_listed_removed_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(folder.path().join("mappings")).unwrap();
        let (a, b) = (VolumeName::parse("a").unwrap(), VolumeName::parse("b").unwrap());
        let ceph = CephImage {
            user: "admin".into(),
            secret: Secret::new("hunter2"),
            monitors: "h:1".into(),
            pool: "rbd".into(),
            image: "i".into(),
        };
        let first = MappingEntry { name: b.clone(), params: Params::Provisioned };
        let second = MappingEntry { name: a.clone(), params: Params::Ceph(ceph) };
        assert_eq!(ledger.get(&a).unwrap(), None);
        ledger.put(&b, &first).unwrap();
        ledger.put(&a, &first).unwrap();
        ledger.put(&a, &second).unwrap();
        assert_eq!(ledger.list().unwrap(), [second, first]);
        let mode = ledger.path(&a).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        ledger.remove(&a).unwrap();
        ledger.remove(&a).unwrap();
        assert_eq!(ledger.list().unwrap().len(), 1);
    }
}

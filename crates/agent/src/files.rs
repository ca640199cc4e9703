//! The files of instances, as the server hands them out.
//!
//! ```text
//!   <run folder>/files/<instance>/<revision>/<path>
//! ```
//! They are written where memory is kept, not with the assignments, because secrets are among them.
//! A revision is written beside and renamed as a whole, so it is there completely or not at all; it
//! stays for the restarts of an agent that has no server, and goes with its instance.
use crate::disk;
use crate::model::InstanceId;
use orrery_proto::fleet::v1::{FileContent, InstanceFiles};
use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown},
    path::{Component, Path, PathBuf},
};

/// Who the files belong to; the agent's own user when absent.
pub(crate) type Owner = Option<(u32, u32)>;

/// Where the files of all instances are.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(crate) fn new(run_dir: &Path) -> Self {
        Self { folder: run_dir.join("files") }
    }

    fn instance(&self, id: &InstanceId) -> PathBuf {
        self.folder.join(id.as_str())
    }

    /// Where the files of one revision are. The revision is a name that the server chose.
    pub(crate) fn place(&self, id: &InstanceId, revision: &str) -> Option<PathBuf> {
        InstanceId::new(revision).map(|name| self.instance(id).join(name.as_str()))
    }

    /// Whether the files of this revision are there.
    pub(crate) fn has(&self, id: &InstanceId, revision: &str) -> bool {
        self.place(id, revision).is_some_and(|place| place.is_dir())
    }

    /// Writes the files of one revision, and takes older ones away.
    pub(crate) fn write(
        &self,
        id: &InstanceId,
        files: &InstanceFiles,
        owner: Owner,
    ) -> io::Result<()> {
        let place =
            self.place(id, &files.revision).ok_or_else(|| bad("a revision without a name"))?;
        let folder = self.instance(id);
        self.open_way()?;
        make_folder(&folder, owner)?;
        let half = folder.join(".half");
        remove(&half)?;
        make_folder(&half, owner)?;
        for file in &files.files {
            write_one(&half, file, owner)?;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path != half && path != place {
                remove(&path)?;
            }
        }
        remove(&place)?;
        fs::rename(&half, &place)
    }

    /// Others may pass through to the folder that is theirs, and see nothing on their way.
    fn open_way(&self) -> io::Result<()> {
        disk::make_folder(&self.folder)?;
        let way = [self.folder.parent(), Some(self.folder.as_path())];
        for folder in way.into_iter().flatten() {
            fs::set_permissions(folder, Permissions::from_mode(0o711))?;
        }
        Ok(())
    }

    /// Takes away all files of an instance.
    pub(crate) fn remove(&self, id: &InstanceId) -> io::Result<()> {
        remove(&self.instance(id))
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn make_folder(path: &Path, owner: Owner) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => outcome?,
    }
    give(path, owner)
}

fn give(path: &Path, owner: Owner) -> io::Result<()> {
    match owner {
        Some((user, group)) => chown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// The server checks paths too; what leaves the folder is refused here whoever sent it.
fn write_one(folder: &Path, file: &FileContent, owner: Owner) -> io::Result<()> {
    let relative = Path::new(file.path.trim_start_matches('/'));
    let names: Vec<_> = relative.components().collect();
    let plain = names.iter().all(|name| matches!(name, Component::Normal(_)));
    if names.is_empty() || !plain {
        return Err(bad(&format!("{:?} is no path within a folder", file.path)));
    }
    let mut path = folder.to_owned();
    for (number, name) in names.iter().enumerate() {
        path.push(name);
        if number + 1 < names.len() {
            make_folder(&path, owner)?;
        }
    }
    let mut options = OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(&path)?;
    out.write_all(&file.content)?;
    give(&path, owner)?;
    fs::set_permissions(&path, Permissions::from_mode(file.mode & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(revision: &str, files: &[(&str, &str, u32)]) -> InstanceFiles {
        let file = |(path, content, mode): &(&str, &str, u32)| FileContent {
            path: (*path).into(),
            mode: *mode,
            content: content.as_bytes().to_vec(),
        };
        InstanceFiles {
            id: "i-1".into(),
            revision: revision.into(),
            files: files.iter().map(file).collect(),
            problem: String::new(),
        }
    }

    #[test]
    fn a_revision_is_there_as_a_whole_and_the_one_before_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, id) = (Files::new(dir.path()), InstanceId::new("i-1").unwrap());
        assert!(!store.has(&id, "a"));
        store
            .write(&id, &files("a", &[("deep/er/key", "one", 0o400), ("/etc/x", "", 0o644)]), None)
            .unwrap();
        let place = store.place(&id, "a").unwrap();
        assert_eq!(fs::read_to_string(place.join("deep/er/key")).unwrap(), "one");
        let mode =
            |path: &str| fs::metadata(place.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("deep/er/key"), mode("etc/x"), mode("deep")), (0o400, 0o644, 0o700));
        store.write(&id, &files("b", &[("key", "two", 0o600)]), None).unwrap();
        assert!(store.has(&id, "b") && !store.has(&id, "a"));
        store.write(&id, &files("b", &[("key", "again", 0o600)]), None).unwrap();
        store.remove(&id).unwrap();
        assert!(!store.has(&id, "b"));
    }

    #[test]
    fn nothing_leaves_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (store, id) = (Files::new(dir.path()), InstanceId::new("i-1").unwrap());
        for path in ["../x", "a/../../x", "", "/"] {
            let error = store.write(&id, &files("a", &[(path, "", 0o600)]), None).unwrap_err();
            assert!(error.to_string().contains("is no path within a folder"), "{path}: {error}");
        }
        assert!(store.write(&id, &files("../up", &[]), None).is_err());
        assert!(
            store.write(&id, &files("a", &[("x", "", 0o600), ("x", "", 0o600)]), None).is_err()
        );
    }
}

//! Files that are whole or absent, whatever happens while they are written.
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// How much a written file has to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survive {
    /// The end of the process that wrote it. Enough for what means nothing after a new boot.
    Process,
    /// A power cut, too.
    PowerCut,
}

/// Replaces the file as a whole. Each file has one writer at a time, so one name for the half-written
/// one is enough; what an interrupted write left there is overwritten by the next.
pub(crate) fn write(path: &Path, bytes: &[u8], survive: Survive) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    if survive == Survive::PowerCut {
        file.sync_all()?;
    }
    fs::rename(&temporary, path)?;
    match (survive, path.parent()) {
        (Survive::PowerCut, Some(folder)) => File::open(folder)?.sync_all(),
        (Survive::PowerCut, None) | (Survive::Process, _) => Ok(()),
    }
}

/// The bytes of a file, or nothing when it is not there.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a folder, and those above it, that only its owner enters: environments hold secrets.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(read(&path).unwrap(), None);
        for survive in [Survive::Process, Survive::PowerCut] {
            write(&path, b"a longer first text", survive).unwrap();
            write(&path, b"short", survive).unwrap();
            assert_eq!(read(&path).unwrap().unwrap(), b"short");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing half-written is left");
    }

    #[test]
    fn what_an_interrupted_write_left_does_not_disturb() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        fs::write(dir.path().join("state.tmp"), "half of somethi").unwrap();
        write(&path, b"whole", Survive::Process).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"whole");
    }
}

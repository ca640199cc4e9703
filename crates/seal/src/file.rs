//! The file that a ring is kept in: readable by its owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::keyring::{Keyring, KeyringError, random};

/// A full ring takes 5 kB; more than this is another file given by mistake.
const FILE_BYTES_MAX: u64 = 64 << 10;
const MODES_ACCEPTED: [u32; 2] = [0o400, 0o600];
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Why a key file cannot be used. Nothing in it comes from inside the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the encryption key file {} does not exist", .file.display())]
    NotFound { file: PathBuf },
    #[error("the encryption key file {} cannot be read", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("the encryption key file {} is not a regular file", .file.display())]
    NotAFile { file: PathBuf },
    #[error(
        "{file} has unix permission {mode:03o}, only 400 and 600 are accepted; run: chmod 600 {file}",
        file = .file.display()
    )]
    Permission { file: PathBuf, mode: u32 },
    #[error("{} is larger than {FILE_BYTES_MAX} bytes, which no key file is", .file.display())]
    TooLarge { file: PathBuf },
    #[error("the encryption key file {} cannot be used: {source}", .file.display())]
    Keys { file: PathBuf, source: KeyringError },
    #[error("cannot write the encryption key file {}", .file.display())]
    Write { file: PathBuf, source: io::Error },
}

impl Keyring {
    /// Reads a ring.
    pub fn load(file: &Path) -> Result<Self, FileError> {
        check_permission(file)?;
        let text = read_limited(file)?;
        let malformed = |source| FileError::Keys { file: file.to_owned(), source };
        let text = std::str::from_utf8(&text)
            .map_err(|_| malformed(KeyringError::Malformed { position: 1 }))?;
        text.parse().map_err(malformed)
    }

    /// Reads a ring, or makes one with a fresh key where there is no file yet.
    pub fn load_or_create(file: &Path) -> Result<Self, FileError> {
        match Self::load(file) {
            Err(FileError::NotFound { .. }) => {}
            read => return read,
        }
        let ring = Self::generate();
        let draft = ring.write_draft(file)?;
        // A link, because it fails where somebody else was faster; a key must never be replaced.
        let linked = fs::hard_link(&draft, file);
        // What is left of a draft harms nobody: it is private.
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => Ok(ring),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(file),
            Err(source) => Err(FileError::Write { file: file.to_owned(), source }),
        }
    }

    /// Writes the ring whole or not at all, in place of the one that is there.
    pub fn save(&self, file: &Path) -> Result<(), FileError> {
        let draft = self.write_draft(file)?;
        fs::rename(&draft, file)
            .map_err(|source| FileError::Write { file: file.to_owned(), source })
    }

    fn write_draft(&self, file: &Path) -> Result<PathBuf, FileError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{:016x}.new", u64::from_le_bytes(*random())));
        let draft = file.with_file_name(name);
        create_private(&draft, self.to_text().as_bytes())
            .map_err(|source| FileError::Write { file: file.to_owned(), source })?;
        Ok(draft)
    }
}

/// Never readable by others, not even for a moment.
fn create_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(folder)?;
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file)?;
    // The umask may have taken away more than we want.
    open.set_permissions(Permissions::from_mode(FILE_MODE))?;
    open.write_all(bytes)?;
    open.sync_all()
}

/// Looks before opening, so that a fifo does not block us.
fn check_permission(file: &Path) -> Result<(), FileError> {
    let metadata = fs::metadata(file).map_err(|error| read_error(file, error))?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile { file: file.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o777;
    if !MODES_ACCEPTED.contains(&mode) {
        return Err(FileError::Permission { file: file.to_owned(), mode });
    }
    Ok(())
}

fn read_limited(file: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let open = File::open(file).map_err(|error| read_error(file, error))?;
    let mut bytes = Zeroizing::new(Vec::new());
    open.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| read_error(file, error))?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(FileError::TooLarge { file: file.to_owned() });
    }
    Ok(bytes)
}

fn read_error(file: &Path, error: io::Error) -> FileError {
    let file = file.to_owned();
    if error.kind() == io::ErrorKind::NotFound {
        FileError::NotFound { file }
    } else {
        FileError::Read { file, source: error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_made_once_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys/encryption.key");
        let made = Keyring::load_or_create(&file).expect("made");
        let again = Keyring::load_or_create(&file).expect("read");
        assert_eq!(made.current(), again.current());
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().expect("a folder")).expect("a folder").count(), 1);
        made.rotated().save(&file).expect("saved");
        assert_eq!(Keyring::load(&file).expect("read").ids().count(), 2);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("k");
        Keyring::load_or_create(&file).expect("made");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("changed");
        let refused = Keyring::load(&file).expect_err("readable by others").to_string();
        assert!(refused.contains("640") && refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn what_is_no_key_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("k");
        assert!(matches!(Keyring::load(&file), Err(FileError::NotFound { .. })));
        assert!(matches!(Keyring::load(folder.path()), Err(FileError::NotAFile { .. })));
        create_private(&file, b"not a key").expect("written");
        let refused = Keyring::load(&file).expect_err("no key").to_string();
        assert!(refused.contains("key 1 is not 32 bytes") && !refused.contains("not a key"));
        create_private(&folder.path().join("big"), &vec![b'#'; 70_000]).expect("written");
        let big = Keyring::load(&folder.path().join("big"));
        assert!(matches!(big, Err(FileError::TooLarge { .. })));
    }
}

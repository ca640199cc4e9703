//! A file that is set aside when it is large enough.
use super::AuditOptions;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Readable by its owner only: it says what everybody does.
const FILE_MODE: u32 = 0o600;

#[derive(Debug)]
pub struct Rotating {
    options: AuditOptions,
    file: File,
    bytes: u64,
}

impl Rotating {
    pub fn open(options: &AuditOptions) -> io::Result<Self> {
        let (file, bytes) = append(&options.path)?;
        Ok(Self { options: options.clone(), file, bytes })
    }

    pub fn path(&self) -> &Path {
        &self.options.path
    }

    /// Writes whole lines, or nothing of them.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        if 0 < self.bytes && self.options.max_bytes < self.bytes + length {
            self.set_aside()?;
        }
        if let Err(error) = self.file.write_all(lines).and_then(|()| self.file.flush()) {
            // What is there of it would be a line that nobody can read.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += length;
        Ok(())
    }

    /// `log` becomes `log.1`, that `log.2`, and the oldest goes.
    fn set_aside(&mut self) -> io::Result<()> {
        let path = &self.options.path;
        let keep = self.options.keep;
        if keep == 0 {
            self.file.set_len(0)?;
            self.bytes = 0;
            return Ok(());
        }
        for number in (1..keep).rev() {
            move_if_there(&numbered(path, number), &numbered(path, number + 1))?;
        }
        move_if_there(path, &numbered(path, 1))?;
        (self.file, self.bytes) = append(path)?;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(FILE_MODE).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn move_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_set_aside_when_it_is_large_enough_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let options = AuditOptions { path: path.clone(), max_bytes: 10, keep: 2 };
        let mut file = Rotating::open(&options).expect("a new file");
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            file.write(line.as_bytes()).expect("room");
        }
        let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
        assert_eq!(read(&path), "fourth\n");
        assert_eq!(read(&numbered(&path, 1)), "third\n");
        assert_eq!(read(&numbered(&path, 2)), "second\n");
        assert!(!numbered(&path, 3).exists());
        drop(file);
        let mut again = Rotating::open(&options).expect("the same file");
        again.write(b"5\n").expect("room");
        assert_eq!(read(&path), "fourth\n5\n", "a restart goes on in it");
    }

    /// A disk that is full, as the kernel has one for tests.
    #[test]
    fn a_full_disk_is_an_error_and_nothing_is_half_written() {
        let options = AuditOptions { path: "/dev/full".into(), max_bytes: 10, keep: 2 };
        let mut file = Rotating::open(&options).expect("it can be opened");
        let error = file.write(b"line\n").expect_err("it is full");
        // The length of a device cannot be set; of a file it can. Both say that the line is not there.
        assert!(matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::InvalidInput));
    }
}

//! The bytes of a backup.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::Xxh3;

use super::Backup;
use crate::{
    embedded::sync_directory,
    model::{Entry, Incarnation, KEY_BYTES_MAX, Revision, VALUE_BYTES_MAX},
};

const MAGIC: &[u8] = b"orrery-backup 1\n";
const ENTRY: u8 = 1;
const END: u8 = 2;

/// Writes beside the final name and takes it over when complete. Dropped before, it cleans up.
pub(super) struct Writer {
    file: BufWriter<File>,
    hash: Xxh3,
    count: u64,
    partial: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl Writer {
    pub fn create(path: &Path, incarnation: Incarnation, revision: Revision) -> io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = BufWriter::new(File::create(&partial)?);
        let (path, hash) = (path.to_owned(), Xxh3::new());
        let mut writer = Self { file, hash, count: 0, partial, path, finished: false };
        writer.put(MAGIC)?;
        writer.put(incarnation.0.as_bytes())?;
        writer.put(&revision.0.to_be_bytes())?;
        Ok(writer)
    }

    pub fn entries(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries {
            self.count += 1;
            self.put(&[ENTRY])?;
            self.put(&entry.created.0.to_be_bytes())?;
            self.put(&entry.modified.0.to_be_bytes())?;
            for part in [entry.key.as_bytes(), &entry.value[..]] {
                let length = u32::try_from(part.len()).map_err(io::Error::other)?;
                self.put(&length.to_be_bytes())?;
            }
            self.put(entry.key.as_bytes())?;
            self.put(&entry.value)?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<u64> {
        self.put(&[END])?;
        self.put(&self.count.to_be_bytes())?;
        let sum = self.hash.digest().to_be_bytes();
        self.file.write_all(&sum)?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.partial, &self.path)?;
        self.finished = true;
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
            Some(_) | None => sync_directory(Path::new("."))?,
        }
        Ok(self.count)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_file(&self.partial)
        {
            let file = self.partial.display();
            tracing::warn!(%file, %error, "cannot remove an unfinished backup");
        }
    }
}

pub(super) struct Reader {
    file: BufReader<File>,
    hash: Xxh3,
    header: (Incarnation, Revision),
    count: u64,
}

impl Reader {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        let header = (Incarnation(uuid::Uuid::nil()), Revision::ZERO);
        let mut reader = Self { file, hash: Xxh3::new(), header, count: 0 };
        if reader.take::<{ MAGIC.len() }>()? != MAGIC {
            return Err(invalid("it is no backup of this program, or of a newer one"));
        }
        let incarnation = Incarnation(uuid::Uuid::from_bytes(reader.take()?));
        reader.header = (incarnation, Revision(u64::from_be_bytes(reader.take()?)));
        Ok(reader)
    }

    pub fn summary(&self) -> Backup {
        let (incarnation, revision) = self.header;
        Backup { incarnation, revision, entries: self.count }
    }

    /// The next entry; `None` once all were read and their checksum was right.
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        match self.take::<1>()?[0] {
            ENTRY => self.entry().map(Some),
            END => self.end().map(|()| None),
            _ => Err(invalid(&format!("unknown content after entry {}", self.count))),
        }
    }

    fn entry(&mut self) -> io::Result<Entry> {
        let created = Revision(u64::from_be_bytes(self.take()?));
        let modified = Revision(u64::from_be_bytes(self.take()?));
        let key = self.length(KEY_BYTES_MAX)?;
        let value = self.length(VALUE_BYTES_MAX)?;
        let key = String::from_utf8(self.bytes(key)?)
            .map_err(|_| invalid(&format!("the key of entry {} is not UTF-8", self.count)))?;
        let value = self.bytes(value)?.into();
        self.count += 1;
        Ok(Entry { key: key.into(), value, created, modified })
    }

    fn end(&mut self) -> io::Result<()> {
        let count = u64::from_be_bytes(self.take()?);
        let expected = self.hash.digest();
        let mut sum = [0; 8];
        self.file.read_exact(&mut sum)?;
        if count != self.count || u64::from_be_bytes(sum) != expected {
            return Err(invalid("the checksum does not match"));
        }
        Ok(())
    }

    fn length(&mut self, limit: usize) -> io::Result<usize> {
        let length = usize::try_from(u32::from_be_bytes(self.take()?)).map_err(io::Error::other)?;
        if limit < length {
            return Err(invalid(&format!("entry {} is {length} bytes long", self.count)));
        }
        Ok(length)
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

fn invalid(detail: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

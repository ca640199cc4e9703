//! Image files: sparse, made under another name and renamed when they are whole.
use crate::{
    error::{Doing, Error, Result},
    volume::Size,
};
use rustix::{
    fs::{SeekFrom, ioctl_ficlone, seek},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

const FILE_MODE: u32 = 0o600;
/// Marks files that are not whole yet; they are deleted when the controller starts.
pub const PARTIAL: &str = "partial";

/// Makes an image of zeros, or one that starts with the content of `from`.
pub fn create(path: &Path, size: Size, from: Option<&Path>) -> Result<()> {
    if let Some(existing) = size_of(path)? {
        let message = || format!("{} exists with {existing}, not {size}", path.display());
        return if existing == size { Ok(()) } else { Err(Error::Conflict(message())) };
    }
    let partial = path.with_added_extension(PARTIAL);
    let made = fill(&partial, size, from).and_then(|()| {
        fs::rename(&partial, path).doing(|| format!("name {}", path.display()))?;
        sync_folder(path)
    });
    if made.is_err() {
        // Best effort: what stays is deleted at the next start, and the error matters more.
        let _ = fs::remove_file(&partial);
    }
    made
}

fn fill(partial: &Path, size: Size, from: Option<&Path>) -> Result<()> {
    let doing = || format!("write {}", partial.display());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
    let file = options.open(partial).doing(doing)?;
    if let Some(from) = from {
        let source = File::open(from).doing(|| format!("read {}", from.display()))?;
        copy(&source, &file).doing(|| format!("copy {}", from.display()))?;
    }
    file.set_len(size.bytes()).doing(doing)?;
    file.sync_all().doing(doing)
}

/// Shares the blocks where the file system can, and otherwise copies what is not a hole.
fn copy(source: &File, target: &File) -> io::Result<()> {
    if ioctl_ficlone(target, source).is_ok() {
        return Ok(());
    }
    let end = seek(source, SeekFrom::End(0))?;
    let mut at = 0;
    while at < end {
        at = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = seek(source, SeekFrom::Hole(at))?;
        seek(source, SeekFrom::Start(at))?;
        seek(target, SeekFrom::Start(at))?;
        io::copy(&mut source.take(hole - at), &mut &*target)?;
        at = hole;
    }
    Ok(())
}

/// The size of an image, if there is one.
pub fn size_of(path: &Path) -> Result<Option<Size>> {
    match fs::metadata(path) {
        Ok(found) => Size::try_from(found.len()).map(Some).map_err(|_| {
            Error::Lost(format!("{} has a size of {} bytes", path.display(), found.len()))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("look at {}", path.display()), error)),
    }
}

pub fn grow(path: &Path, size: Size) -> Result<()> {
    let doing = || format!("grow {}", path.display());
    let file = OpenOptions::new().write(true).open(path).doing(doing)?;
    if file.metadata().doing(doing)?.len() < size.bytes() {
        file.set_len(size.bytes()).doing(doing)?;
        file.sync_all().doing(doing)?;
    }
    Ok(())
}

pub fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(format!("delete {}", path.display()), error)),
    }
}

fn sync_folder(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.doing(|| format!("sync {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::{create, delete, grow, size_of};
    use crate::volume::Size;
    use std::{
        fs,
        os::unix::fs::{FileExt, MetadataExt},
    };

    fn size(bytes: u64) -> Size {
        Size::try_from(bytes).unwrap()
    }

    #[test]
    fn images_are_sparse_and_copies_of_them_too() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a.img"), folder.path().join("b.img"));
        create(&first, size(1 << 30), None).unwrap();
        create(&first, size(1 << 30), None).unwrap();
        assert!(create(&first, size(512), None).is_err(), "another size is refused");
        let file = fs::OpenOptions::new().write(true).open(&first).unwrap();
        file.write_all_at(b"in the middle", 500 << 20).unwrap();

        create(&second, size(2 << 30), Some(&first)).unwrap();
        let copy = fs::File::open(&second).unwrap();
        let mut found = [0; 13];
        copy.read_exact_at(&mut found, 500 << 20).unwrap();
        assert_eq!(&found, b"in the middle");
        let on_disk = copy.metadata().unwrap().blocks() * 512;
        assert!(on_disk < 1 << 20, "{on_disk} bytes are used for 13");
        assert_eq!(size_of(&second).unwrap(), Some(size(2 << 30)));

        grow(&second, size(3 << 30)).unwrap();
        grow(&second, size(512)).unwrap();
        assert_eq!(size_of(&second).unwrap(), Some(size(3 << 30)), "an image never shrinks");
        delete(&second).unwrap();
        delete(&second).unwrap();
        assert_eq!(size_of(&second).unwrap(), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
    }
}

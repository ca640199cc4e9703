//! Locks by `flock`: the kernel gives them back when their last holder is gone, however it went.
use crate::disk;
use crate::error::Error;
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens the file and locks it, or returns nothing when somebody else has it locked.
pub(crate) fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes this agent the only one of its data folder for as long as the file is kept.
pub(crate) fn lock_data_dir(data_dir: &Path) -> Result<File, Error> {
    let path = data_dir.join("agent.lock");
    let trouble = |source| Error::DataDir { path: path.clone(), source };
    let Some(mut file) = try_lock(&path).map_err(trouble)? else {
        return Err(Error::InUse { path: data_dir.to_owned(), holder: holder(&path) });
    };
    note_pid(&mut file).map_err(trouble)?;
    Ok(file)
}

/// The same by the name of the data folder, which stays when the folder itself is deleted below an agent
/// that still runs. Nothing when there is no place for it outside of the data folder.
pub(crate) fn lock_beside(run_dir: &Path, data_dir: &Path) -> Result<Option<File>, Error> {
    let path = run_dir.join("agent.lock");
    let made = disk::make_folder(run_dir).and_then(|()| try_lock(&path));
    match made {
        Ok(Some(mut file)) => {
            // Who holds it is only for people.
            let _ = note_pid(&mut file);
            Ok(Some(file))
        }
        Ok(None) => Err(Error::InUse { path: data_dir.to_owned(), holder: holder(&path) }),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "no lock beside the data folder");
            Ok(None)
        }
    }
}

/// The process id is only for people; the lock does not depend on it.
fn note_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    let pid = text.trim();
    (!pid.is_empty()).then(|| pid.to_owned())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_agent_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock_data_dir(dir.path()).unwrap();
        let error = lock_data_dir(dir.path()).unwrap_err().to_string();
        let expect = format!("another agent (pid {}) already uses", std::process::id());
        assert!(error.starts_with(&expect), "{error}");
        drop(first);
        lock_data_dir(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = lock_data_dir(Path::new("/nonexistent/place")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/place/agent.lock"), "{error}");
    }
}

//! Starting a supervisor, and noticing its end.
use super::super::RuntimeError;
use super::blocking;
use super::mark::{self, Mark};
use super::record::{Folder, Launch};
use crate::config::SupervisorCommand;
use crate::{disk, lock};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, OwnedFd},
    process::{Command, Stdio},
    time::Duration,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// What a supervisor says on its standard output when the run record is worth reading.
pub(crate) const READY: &[u8] = b"ready\n";

/// A supervisor answers within milliseconds. One that waits this long hangs on a disk or a network
/// folder, and people should be told.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// A supervisor that has said that its program could not start has nothing left to do.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);

/// A supervisor that was started.
pub(super) struct Spawned {
    handle: OwnedFd,
}

impl Spawned {
    /// Waits for the end of one that has nothing more to do.
    pub(super) async fn reap(self) -> Result<(), RuntimeError> {
        tokio::time::timeout(EXIT_PATIENCE, ended(self.handle))
            .await
            .unwrap_or(Err(RuntimeError::NoAnswer(EXIT_PATIENCE)))
    }
}

/// Starts a supervisor and waits until it has started the program, or has failed to.
pub(super) async fn spawn(
    folder: Folder,
    launch: Launch,
    command: SupervisorCommand,
    node: &str,
) -> Result<Spawned, RuntimeError> {
    let mark = Mark::of(&launch, node, folder.name()).text();
    let doing = format!("start the supervisor {}", command.program.display());
    let spawned = blocking(&doing, move || start(&folder, &launch, &command, &mark)).await?;
    let (handle, answers) = spawned.ok_or(RuntimeError::StillThere)?;
    let trouble = RuntimeError::io("hear from the supervisor");
    let mut answers = pipe::Receiver::from_owned_fd(answers).map_err(trouble)?;
    let mut answer = [0; READY.len()];
    // A supervisor that dies instead of answering closes the pipe; the record tells what it did.
    match tokio::time::timeout(ANSWER_PATIENCE, answers.read_exact(&mut answer)).await {
        Ok(_ready_or_closed) => Ok(Spawned { handle }),
        Err(_elapsed) => {
            give_up(handle);
            Err(RuntimeError::NoAnswer(ANSWER_PATIENCE))
        }
    }
}

/// Nothing when somebody else holds the lock of the instance.
fn start(
    folder: &Folder,
    launch: &Launch,
    command: &SupervisorCommand,
    mark: &str,
) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    disk::make_folder(&folder.work())?;
    disk::make_folder(&folder.logs())?;
    let Some(lock) = lock::try_lock(&folder.lock())? else { return Ok(None) };
    folder.write_launch(launch)?;
    let child = Command::new(&command.program)
        .args(&command.args)
        .arg(folder.path())
        .env_clear()
        .env(mark::VARIABLE, mark)
        .current_dir(folder.path())
        .stdin(lock)
        .stdout(Stdio::piped())
        .stderr(File::create(folder.supervisor_log())?)
        .spawn()?;
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK)?;
    let answers = child.stdout.ok_or_else(|| io::Error::other("the pipe is missing"))?;
    Ok(Some((handle, answers.into())))
}

/// Kills a supervisor that hangs. It may hang in the kernel, where the signal waits with it; the
/// lock is held until then, so nothing is started a second time.
fn give_up(handle: OwnedFd) {
    if let Err(error) = rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL) {
        tracing::warn!(%error, "cannot kill a supervisor that does not answer");
    }
}

/// Returns when the process is gone, and leaves no zombie if it is a child of ours.
pub(crate) async fn ended(handle: OwnedFd) -> Result<(), RuntimeError> {
    let doing = "wait for the end of the supervisor";
    // A pidfd is no pipe, but it is watched like one: all that is asked of it is when it becomes
    // readable. Tokio's wrapper for descriptors in general cannot be made without `unsafe`.
    let handle =
        pipe::Receiver::from_owned_fd_unchecked(handle).map_err(RuntimeError::io(doing))?;
    handle.readable().await.map_err(RuntimeError::io(doing))?;
    match waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
        Ok(_) => Ok(()),
        // Adopted, hence not our child: somebody else has waited for it, or will.
        Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(error) => Err(RuntimeError::io(doing)(error.into())),
    }
}

/// Whether somebody holds the lock of the instance, that is, whether a supervisor exists.
pub(super) fn is_locked(folder: &Folder) -> io::Result<bool> {
    match fs::exists(folder.lock())? {
        true => Ok(lock::try_lock(&folder.lock())?.is_none()),
        false => Ok(false),
    }
}

//! The program and everything that descends from it.
//!
//! Because the supervisor is the subreaper, whatever loses its parent becomes its child. Therefore
//! "no children" means "nothing left", and nothing can slip away by forking twice.
use crate::model::Exit;
use crate::procfs::{self, Identity, Stat};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use std::io;

/// Who is left.
pub(super) struct Family {
    program: Identity,
    /// How the program ended, once it has. Until it is waited for, its number is its own, and so is
    /// the number of its group.
    pub exit: Option<Exit>,
    /// Nothing is left, the program included.
    pub extinct: bool,
}

impl Family {
    pub(super) fn new(program: Identity) -> Self {
        Self { program, exit: None, extinct: false }
    }

    /// Waits for all that have ended. To be called after each SIGCHLD, which may stand for several.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note(pid, status),
                Ok(None) => return Ok(()),
                Err(rustix::io::Errno::CHILD) => {
                    self.extinct = true;
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&mut self, pid: Pid, status: WaitStatus) {
        if pid.as_raw_nonzero().get() == self.program.pid {
            let code = status.exit_status().map(Exit::Code);
            self.exit = code.or(status.terminating_signal().map(Exit::Signal)).or(self.exit);
        }
    }

    /// Asks everybody once: the group as a whole while the program is there, and each one that is
    /// elsewhere.
    pub(super) fn ask(&self, signal: Signal) -> io::Result<()> {
        if self.exit.is_some() {
            return signal_descendants(signal, |_| true);
        }
        self.signal_group(signal)?;
        signal_descendants(signal, |stat| stat.group != self.program.pid)
    }

    /// Kills everything there is now. What is born meanwhile comes up when its parent is reaped, so
    /// this is called again after each reaping.
    pub(super) fn kill(&self) -> io::Result<()> {
        if self.exit.is_none() {
            self.signal_group(Signal::KILL)?;
        }
        signal_descendants(Signal::KILL, |_| true)
    }

    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        let Some(group) = Pid::from_raw(self.program.pid) else { return Ok(()) };
        match kill_process_group(group, signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            outcome => allowed(outcome.map_err(io::Error::from)),
        }
    }
}

/// A process that became another user's cannot be signalled by an agent without privileges. It does
/// not vanish by our giving up: the others are signalled, and the agent says that the stop failed.
fn allowed(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

fn signal_descendants(signal: Signal, meant: impl Fn(&Stat) -> bool) -> io::Result<()> {
    let me = procfs::myself()?.pid;
    let living = procfs::descendants(me)?.into_iter().filter(|stat| !stat.zombie && meant(stat));
    for stat in living {
        allowed(stat.identity.signal(signal).map(|_| ()))?;
    }
    Ok(())
}

//! Ends a process that was asked to stop and does not, also when the agent that asked it is gone.
//!
//! A process of the node has a supervisor, which does that. A container has none of ours: whoever asks it
//! to stop leaves this behind. It does nothing but wait, and ends with the process.
use crate::procfs::Identity;
use crate::runtime::process::spawn;
use rustix::process::{Signal, setsid};
use std::{ffi::OsString, io, process::ExitCode, time::Duration};

/// The word that tells it from a supervisor.
pub(crate) const DEADLINE: &str = "deadline";

/// What follows that word: which process, and how many milliseconds it has.
pub(crate) fn words(process: Identity, grace: Duration) -> [String; 3] {
    let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    [process.pid.to_string(), process.start_ticks.to_string(), grace.to_string()]
}

pub(super) fn main(args: &[OsString]) -> ExitCode {
    let Some((process, grace)) = read(args) else { return ExitCode::FAILURE };
    match keep(process, grace) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read(args: &[OsString]) -> Option<(Identity, Duration)> {
    let [pid, start_ticks, grace] = args else { return None };
    let (pid, start_ticks) = (pid.to_str()?.parse().ok()?, start_ticks.to_str()?.parse().ok()?);
    let grace = Duration::from_millis(grace.to_str()?.parse().ok()?);
    Some((Identity { pid, start_ticks }, grace))
}

fn keep(process: Identity, grace: Duration) -> io::Result<()> {
    super::descriptors::shed()?;
    // Out of reach of a terminal's Ctrl-C.
    setsid()?;
    let Some(handle) = process.open()? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async { tokio::time::timeout(grace, spawn::ended(handle)).await });
    match ended {
        Ok(outcome) => outcome.map_err(io::Error::other),
        Err(_elapsed) => process.signal(Signal::KILL).map(|_there| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let process = Identity { pid: 7, start_ticks: 1 << 40 };
        let words = words(process, Duration::from_millis(1500));
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        assert_eq!(read(&words), Some((process, Duration::from_millis(1500))));
        assert_eq!(read(&words[1..]), None);
        assert_eq!(read(&["7".into(), "x".into(), "1".into()]), None);
    }
}

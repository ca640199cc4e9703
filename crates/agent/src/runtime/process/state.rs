//! From the files of an instance to the truth about its last run.
use super::super::{RuntimeError, StopRequest};
use super::record::{Folder, Phase, Record};
use super::{blocking, leftovers, spawn};
use crate::model::{InstanceId, Run, RunState};
use crate::procfs;
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::time::{Instant, sleep};

/// How long a supervisor may be between taking the lock and recording what it did. An agent only
/// gets to see this when the agent before it was killed in that very moment.
const STARTING_PATIENCE: Duration = Duration::from_secs(30);

/// How often to look during that moment.
const STARTING_INTERVAL: Duration = Duration::from_millis(10);

/// What the files say at one moment.
enum Glimpse {
    /// There was never a run.
    Nothing,
    /// A supervisor is about to start a program, or to record that it did.
    Starting,
    /// True, and will stay true until something happens.
    Settled(Run),
    /// The supervisor is gone and has not said how the program ended.
    Abandoned { record: Record },
    /// The record cannot be read.
    Broken { why: String, supervised: bool },
}

/// The last run, with nothing of it left running unless it is live.
pub(super) async fn settled(folder: &Folder, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
    let deadline = Instant::now() + STARTING_PATIENCE;
    loop {
        let here = folder.clone();
        match blocking("look at the last run", move || glimpse(&here)).await? {
            Glimpse::Nothing => return Ok(None),
            Glimpse::Settled(run) => return Ok(Some(run)),
            Glimpse::Abandoned { record } => return abandoned(record).await.map(Some),
            Glimpse::Broken { why, supervised: false } => return broken(why, id).await.map(Some),
            // Its program is ended, upon which the supervisor writes a new record.
            Glimpse::Broken { supervised: true, .. } => leftovers::end_instance(id).await?,
            Glimpse::Starting => (),
        }
        if deadline < Instant::now() {
            return Err(RuntimeError::NoAnswer(STARTING_PATIENCE));
        }
        sleep(STARTING_INTERVAL).await;
    }
}

/// Whether the record is of this run.
pub(super) async fn is_of(folder: Folder, run: String) -> Result<bool, RuntimeError> {
    blocking("read the record of the run", move || {
        Ok(folder.read_record()?.is_some_and(|record| record.run == run))
    })
    .await
}

/// A handle of the supervisor of a live run.
pub(super) async fn supervisor(folder: Folder) -> Result<Option<OwnedFd>, RuntimeError> {
    blocking("find the supervisor", move || match folder.read_record() {
        Ok(Some(record)) if record.boot == procfs::boot_id()? => match record.phase {
            Phase::Running { .. } => record.supervisor.open(),
            Phase::Starting | Phase::StartFailed { .. } | Phase::Ended { .. } => Ok(None),
        },
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    })
    .await
}

fn glimpse(folder: &Folder) -> io::Result<Glimpse> {
    // The lock comes first: if it is free, whatever the record says will not change any more.
    let supervised = spawn::is_locked(folder)?;
    let record = match folder.read_record() {
        Ok(record) => record,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Ok(Glimpse::Broken { why: error.to_string(), supervised });
        }
        Err(error) => return Err(error),
    };
    if supervised && !is_current(folder, record.as_ref())? {
        return Ok(Glimpse::Starting);
    }
    match record {
        Some(record) => judge(record, supervised),
        None => Ok(Glimpse::Nothing),
    }
}

/// Whether the record is of the run that was last launched.
fn is_current(folder: &Folder, record: Option<&Record>) -> io::Result<bool> {
    let launched = folder.read_launch()?.map(|launch| launch.run);
    Ok(record.map(|record| &record.run) == launched.as_ref())
}

fn judge(record: Record, supervised: bool) -> io::Result<Glimpse> {
    let state = match &record.phase {
        Phase::Starting if supervised => return Ok(Glimpse::Starting),
        Phase::Starting => return Ok(Glimpse::Abandoned { record }),
        Phase::Running { program, started_at } => {
            let alive = record.boot == procfs::boot_id()? && record.supervisor.is_alive();
            if !alive {
                return Ok(Glimpse::Abandoned { record });
            }
            RunState::Running { pid: program.pid, started_at: *started_at }
        }
        Phase::StartFailed { message } => RunState::StartFailed { message: message.clone() },
        Phase::Ended { exit, interrupted, started_at, finished_at, ran_ms } => RunState::Ended {
            exit: *exit,
            interrupted: *interrupted,
            started_at: *started_at,
            finished_at: *finished_at,
            ran: Duration::from_millis(*ran_ms),
        },
    };
    Ok(Glimpse::Settled(run(record, state)))
}

fn run(record: Record, state: RunState) -> Run {
    let stop = record.stop.map(StopRequest::from);
    Run { hash: record.hash, history: record.history, state, warning: record.warning, stop }
}

/// Ends what the supervisor cannot end any more, and says what is known.
async fn abandoned(record: Record) -> Result<Run, RuntimeError> {
    let boot = procfs::boot_id().map_err(RuntimeError::io("read the id of this boot"))?;
    let rebooted = record.boot != boot;
    if !rebooted {
        leftovers::end_run(&record).await?;
    }
    let state = match record.phase {
        Phase::Running { started_at, .. } => RunState::Lost { message: lost(rebooted), started_at },
        Phase::Starting | Phase::StartFailed { .. } | Phase::Ended { .. } => {
            RunState::StartFailed { message: "its supervisor ended while starting it".to_owned() }
        }
    };
    Ok(run(record, state))
}

fn lost(rebooted: bool) -> String {
    match rebooted {
        true => "lost when the machine stopped".to_owned(),
        false => "lost: its supervisor was killed".to_owned(),
    }
}

async fn broken(why: String, id: &InstanceId) -> Result<Run, RuntimeError> {
    leftovers::end_instance(id).await?;
    let state = RunState::Unknown { message: why };
    let hash = crate::model::SpecHash(String::new());
    Ok(Run { hash, history: crate::model::History::default(), state, warning: None, stop: None })
}

#[cfg(test)]
mod tests;

//! Ending the processes of a run whose supervisor is not there to do it.
//!
//! They are recognized by the id of the run in the environment they were started with, which their
//! descendants inherit; or by being in both the session of the supervisor and the process group of
//! the program. One number could have been given to somebody else since; both together could not.
use super::super::RuntimeError;
use super::record::{Phase, Record};
use super::{blocking, environment, spawn};
use crate::model::InstanceId;
use crate::procfs::{self, Identity, Stat};
use rustix::process::Signal;
use std::{io, time::Duration};

/// A killed process is gone at once, unless it hangs in the kernel; then people must be told.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Each round ends everything it sees; a second one is for what was born meanwhile. Programs that
/// are born faster than they can be ended need somebody to look after them.
const ROUNDS: usize = 100;

/// Ends what is left of one run.
pub(super) async fn end_run(record: &Record) -> Result<(), RuntimeError> {
    let mark = format!("{}={}", environment::RUN, record.run);
    let session = record.supervisor.pid;
    let group = match record.phase {
        Phase::Running { program, .. } => Some(program.pid),
        Phase::Starting | Phase::StartFailed { .. } | Phase::Ended { .. } => None,
    };
    end(move |stat| {
        let related = stat.session == session && Some(stat.group) == group;
        related || procfs::carries(stat.identity.pid, &mark)
    })
    .await
}

/// Ends everything of an instance, whatever run it is from.
pub(super) async fn end_instance(id: &InstanceId) -> Result<(), RuntimeError> {
    let mark = format!("{}={id}", environment::INSTANCE);
    end(move |stat| procfs::carries(stat.identity.pid, &mark)).await
}

async fn end(belongs: impl Fn(&Stat) -> bool + Clone + Send + 'static) -> Result<(), RuntimeError> {
    for _ in 0..ROUNDS {
        let belongs = belongs.clone();
        let found = blocking("look for processes that are left", move || living(&belongs)).await?;
        if found.is_empty() {
            return Ok(());
        }
        for process in found {
            end_one(process).await?;
        }
    }
    Err(RuntimeError::StillThere)
}

fn living(belongs: &dyn Fn(&Stat) -> bool) -> io::Result<Vec<Identity>> {
    let found = procfs::all()?.into_iter().filter(|stat| !stat.zombie && belongs(stat));
    Ok(found.map(|stat| stat.identity).collect())
}

async fn end_one(process: Identity) -> Result<(), RuntimeError> {
    let doing = format!("kill the process {} that is left of it", process.pid);
    let handle = process.open().map_err(RuntimeError::io(doing.clone()))?;
    let Some(handle) = handle else { return Ok(()) };
    process.signal(Signal::KILL).map_err(RuntimeError::io(doing))?;
    match tokio::time::timeout(KILL_PATIENCE, spawn::ended(handle)).await {
        Ok(ended) => ended,
        Err(_elapsed) => Err(RuntimeError::StillThere),
    }
}

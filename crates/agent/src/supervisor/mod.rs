//! The small process between the agent and one program.
//!
//! It is started by the agent in a folder that says what to run, and outlives the agent: it is in a
//! session of its own, where neither a terminal's Ctrl-C nor the agent's end reaches it. It starts
//! the program in a process group of its own, writes its output to a bounded log, adopts whatever the
//! program leaves behind (it is the subreaper of its descendants), and records how the program began
//! and ended.
//!
//! ```text
//!           SIGTERM (read the request)            grace over
//!  running ----------------------------> stopping -----------> killing
//!     |                                     |                     |
//!     | program ended                       | all ended           | all ended
//!     v                                     v                     v
//!  tidying: the rest is asked, then killed ------------------> recorded, exit
//! ```
//!
//! It decides nothing else: whether to start again is the agent's business. Whoever else sends it
//! SIGTERM or SIGINT, the system that shuts down for example, gets what the agent would.
pub(crate) mod deadline;
mod descriptors;
mod family;
pub(crate) mod logs;
mod program;
pub(crate) mod stage;
mod view;
mod watch;

pub use logs::{LOG_FILE_MAX_BYTES, LOG_FOLDER};

use crate::runtime::process::record::{Folder, Phase, Record};
use crate::runtime::process::spawn::READY;
use crate::{cgroups, procfs};
use program::Program;
use rustix::process::{getpid, set_child_subreaper, setsid};
use std::{ffi::OsString, io, io::Write, path::PathBuf, process::ExitCode};
use watch::Watch;

/// Entry of the process. Takes one argument: the folder of the instance. To be called before the
/// process starts any other thread.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.first().is_some_and(|word| word == deadline::DEADLINE) {
        return deadline::main(&args.split_off(1));
    }
    let stages = [stage::STAGE, stage::BESIDE, stage::BESIDE_TERMINAL];
    if let Some(how) = stages.into_iter().find(|how| args.first().is_some_and(|word| word == how)) {
        return stage::main(how, args.split_off(1));
    }
    match supervise(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Goes to a file beside the record; when that fails too there is nobody to tell.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(args: Vec<OsString>) -> io::Result<()> {
    let [folder] = <[OsString; 1]>::try_from(args)
        .map_err(|_| io::Error::other("usage: supervisor <folder of the instance>"))?;
    let folder = Folder::new(PathBuf::from(folder));
    descriptors::shed()?;
    // Already the leader of a session when started by hand.
    setsid().map(drop).or_else(|error| match error {
        rustix::io::Errno::PERM => Ok(()),
        other => Err(other),
    })?;
    set_child_subreaper(Some(getpid()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(folder))
}

async fn run(folder: Folder) -> io::Result<()> {
    let missing = || io::Error::other("there is no launch.json in the folder");
    let launch = folder.read_launch()?.ok_or_else(missing)?;
    let mut record = Record::starting(&launch, procfs::boot_id()?, procfs::myself()?);
    folder.write_record(&record)?;
    // Signals are caught before there is a program that they could be about.
    let mut watch = Watch::new(folder.clone(), &launch)?;
    let prepared = cgroups::prepare(folder.name(), launch.group);
    record.warning = prepared.warning;
    match program::start(&folder, &launch, &prepared.join) {
        Err(message) => {
            record.phase = Phase::StartFailed { message };
            folder.write_record(&record)?;
            announce()
        }
        Ok(program) => {
            let identity = program.identity;
            let outcome = attend(&folder, &mut watch, record, program).await;
            if outcome.is_err() {
                // Nobody would watch it any more, so it must not run.
                watch.abandon(identity).await?;
            }
            outcome
        }
    }
}

/// From the start of the program to the record of its end.
async fn attend(
    folder: &Folder,
    watch: &mut Watch,
    mut record: Record,
    program: Program,
) -> io::Result<()> {
    record.phase = Phase::Running { program: program.identity, started_at: program.started_at };
    folder.write_record(&record)?;
    announce()?;
    record.phase = watch.until_over(program).await?;
    // Nothing is left in them. What cannot be removed now is removed with the instance.
    let _ = cgroups::remove(folder.name());
    watch::insist(|| folder.write_record(&record)).await
}

/// Tells the agent that the record is worth reading. An agent that is gone does not mind.
fn announce() -> io::Result<()> {
    let mut out = io::stdout();
    match out.write_all(READY).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

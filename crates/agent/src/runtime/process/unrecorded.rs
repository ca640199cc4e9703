//! What runs for this agent and is not in its records: its data folder was deleted, is on another disk,
//! or is an older copy of itself.
//!
//! ```text
//!  /proc --> supervisors of this agent --> not in the records --> the record is written anew
//!       `--> programs without one -------> not in the records --> likewise, as of a run that is lost
//! ```
//!
//! From then on all is as ever: a run with a record is adopted, replaced or removed as the server says,
//! and one that nobody supervises is ended. So this is done before anything is started.
//!
//! Ours is a supervisor that has our folder as its last word, belongs to our user in every sense, leads
//! a session, and carries our node ([`Mark`]). Ours is a program without a supervisor that carries our
//! data folder, our node and a run, and whose session is nobody else's: who has read these words and
//! repeats them in a session of its own is left alone.
use super::environment::{AGENT, INSTANCE, NODE, RUN};
use super::mark::Mark;
use super::record::{Folder, Launch, Phase, Record};
use super::{blocking, spawn};
use crate::clock;
use crate::config::SupervisorCommand;
use crate::model::{History, InstanceId, SpecHash, StopSignal, UnixMillis};
use crate::procfs::{self, Identity, Stat};
use crate::runtime::{RuntimeError, StopRequest};
use crate::volumes::Volumes;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// What people are told of a run that nobody knew of.
pub(crate) const FOUND: &str = "found running without a record of it, as after the loss of the \
    agent's data folder: what it kept there, like earlier output, is gone";

/// What a supervisor may take beyond the grace of its program.
const STOP_SLACK: Duration = Duration::from_secs(5);

/// How a program is stopped by a supervisor that does not say.
const STOP_DEFAULT: StopRequest =
    StopRequest { signal: StopSignal::Term, grace: Duration::from_secs(10) };

/// Whose runs are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    /// The data folder, an absolute path, and the folder of instances in it.
    pub(crate) data_dir: PathBuf,
    pub(crate) instances: PathBuf,
    pub(crate) node: String,
    pub(crate) supervisor: SupervisorCommand,
}

/// A supervisor of this agent.
#[derive(Clone, Debug)]
struct Supervisor {
    identity: Identity,
    /// Nothing when it is of a version that carried none.
    mark: Option<Mark>,
}

/// A program whose supervisor is gone.
struct Orphan {
    stat: Stat,
    run: String,
}

/// Writes records of what runs without one. Of several runs of one instance one is left: the recorded
/// one, or else the latest. The others are asked to stop, and are gone when this returns.
pub(crate) async fn recover(home: Home) -> Result<(), RuntimeError> {
    let here = home.clone();
    let doing = "look for what runs without a record";
    let (supervisors, orphans) = blocking(doing, move || look(&here)).await?;
    for (id, found) in supervisors {
        settle(&home, id, found).await?;
    }
    blocking(doing, move || {
        orphans.iter().try_for_each(|(id, orphans)| home.note_orphans(id, orphans))
    })
    .await
}

type Found = (BTreeMap<InstanceId, Vec<Supervisor>>, BTreeMap<InstanceId, Vec<Orphan>>);

fn look(home: &Home) -> io::Result<Found> {
    let all = procfs::all()?;
    let mut supervisors: BTreeMap<InstanceId, Vec<Supervisor>> = BTreeMap::new();
    for (id, supervisor) in all.iter().filter_map(|stat| home.supervisor(stat)) {
        supervisors.entry(id).or_default().push(supervisor);
    }
    let mut orphans: BTreeMap<InstanceId, Vec<Orphan>> = BTreeMap::new();
    // What has a supervisor, or is a command beside such a program, is not alone.
    let alone = |id: &InstanceId| !supervisors.contains_key(id);
    for (id, orphan) in all.iter().filter_map(|stat| home.orphan(stat, alone)) {
        orphans.entry(id).or_default().push(orphan);
    }
    Ok((supervisors, orphans))
}

async fn settle(home: &Home, id: InstanceId, found: Vec<Supervisor>) -> Result<(), RuntimeError> {
    let folder = home.folder(&id);
    let here = folder.clone();
    let known = blocking("read its record", move || Ok(Known::read(&here))).await?;
    if known.broken {
        // Whoever looks at it next ends it, and says why.
        return Ok(());
    }
    let (recorded, mut others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|supervisor| known.has(supervisor));
    others.sort_by_key(|supervisor| supervisor.identity.start_ticks);
    let adopted = if recorded.is_empty() { others.pop() } else { None };
    for supervisor in &others {
        if let Err(error) = retire(&id, supervisor).await {
            tracing::error!(%id, %error, "a second run of an instance does not stop; look at it");
        }
    }
    let data_dir = home.data_dir.clone();
    let rewritten = known.record.filter(|_| !others.is_empty());
    blocking("write a record anew", move || match adopted {
        Some(supervisor) => {
            let places = supervisor.mark.iter().flat_map(|mark| &mark.volumes);
            let places: Vec<PathBuf> = places.cloned().collect();
            Volumes::note_again(&data_dir, &id, &places)?;
            adopt(&folder, &id, &supervisor)
        }
        // The others have written about their ends where it stood.
        None => rewritten.map_or(Ok(()), |record| folder.write_record(&record)),
    })
    .await
}

/// What the records say of an instance.
struct Known {
    record: Option<Record>,
    launched: Option<String>,
    /// The file that a supervisor holds locked, if these are its records.
    lock: Option<(u64, u64)>,
    broken: bool,
}

impl Known {
    fn read(folder: &Folder) -> Self {
        let record = folder.read_record();
        let launched = folder.read_launch().ok().flatten().map(|launch| launch.run);
        let broken = matches!(&record, Err(error) if error.kind() == io::ErrorKind::InvalidData);
        Self { record: record.ok().flatten(), launched, lock: file_of(&folder.lock()), broken }
    }

    /// Whether the records are about this supervisor: they name it, or it holds their lock and has yet
    /// to write in them.
    fn has(&self, supervisor: &Supervisor) -> bool {
        let named =
            self.record.as_ref().is_some_and(|known| known.supervisor == supervisor.identity);
        let standard_input = format!("/proc/{}/fd/0", supervisor.identity.pid);
        let holds = self.lock.is_some() && file_of(Path::new(&standard_input)) == self.lock;
        let run = supervisor.mark.as_ref().map(|mark| &mark.run);
        named || (holds && run.is_none_or(|run| Some(run) == self.launched.as_ref()))
    }
}

/// What tells one file from another, whatever it is called.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Writes what the record of this supervisor would say.
fn adopt(folder: &Folder, id: &InstanceId, supervisor: &Supervisor) -> io::Result<()> {
    let below = procfs::descendants(supervisor.identity.pid)?;
    let leads =
        |stat: &&Stat| stat.parent == supervisor.identity.pid && stat.group == stat.identity.pid;
    let program = below.iter().filter(leads).map(|stat| stat.identity);
    let program = program.min_by_key(|identity| identity.start_ticks);
    let run = supervisor.mark.as_ref().map(|mark| mark.run.clone());
    let carried =
        || below.iter().find_map(|stat| procfs::environment(stat.identity.pid).remove(RUN));
    let run = run.or_else(carried).unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let mark = supervisor.mark.as_ref();
    let hash = mark.map_or_else(|| SpecHash(String::new()), |mark| mark.hash.clone());
    let history = mark.map(|mark| mark.history).unwrap_or_default();
    let stop = mark.map_or(STOP_DEFAULT, |mark| mark.stop.into());
    // While there is no program yet, or not any more, the supervisor stands for it.
    let program = program.unwrap_or(supervisor.identity);
    let launch = Launch::new(run, hash, history, stop);
    note(folder, &launch, supervisor.identity, program)?;
    let pid = program.pid;
    tracing::warn!(%id, pid, "adopted a run that there was no record of; was the data folder lost?");
    Ok(())
}

fn note(
    folder: &Folder,
    launch: &Launch,
    supervisor: Identity,
    program: Identity,
) -> io::Result<()> {
    crate::disk::make_folder(&folder.work())?;
    crate::disk::make_folder(&folder.logs())?;
    // A lock that is here is of another run. Its supervisor, if it has one, keeps what it holds. And what
    // was a container once is a process now.
    for stale in [folder.lock(), folder.path().join(crate::runtime::podman::MARK)] {
        match fs::remove_file(stale) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let mut record = Record::starting(launch, procfs::boot_id()?, supervisor);
    record.phase = Phase::Running { program, started_at: started_at(program) };
    record.warning = Some(FOUND.to_owned());
    folder.write_record(&record)
}

/// The time of day at which a process was started.
fn started_at(process: Identity) -> UnixMillis {
    let now = clock::unix_now().0;
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime.split_ascii_whitespace().next().unwrap_or_default();
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    let uptime_ms = number(whole) * 1000 + number(part) * 10;
    let started_ms = process.start_ticks * 1000 / rustix::param::clock_ticks_per_second().max(1);
    UnixMillis(now.saturating_sub(uptime_ms.saturating_sub(started_ms)))
}

/// Asks a supervisor to stop its program its own way, and waits until both are gone.
async fn retire(id: &InstanceId, supervisor: &Supervisor) -> Result<(), RuntimeError> {
    let pid = supervisor.identity.pid;
    tracing::warn!(%id, supervisor = pid, "a second run of an instance is asked to stop");
    let handle = supervisor.identity.open().map_err(RuntimeError::io("watch a second run"))?;
    let Some(handle) = handle else { return Ok(()) };
    let asked = supervisor.identity.signal(Signal::TERM);
    asked.map_err(RuntimeError::io("stop a second run"))?;
    let grace = supervisor.mark.as_ref().map_or(STOP_DEFAULT.grace, |mark| mark.stop.grace());
    let patience = grace + STOP_SLACK;
    match tokio::time::timeout(patience, spawn::ended(handle)).await {
        Ok(ended) => ended,
        Err(_elapsed) => Err(RuntimeError::NoAnswer(patience)),
    }
}

impl Home {
    fn folder(&self, id: &InstanceId) -> Folder {
        Folder::new(self.instances.join(id.as_str()))
    }

    fn supervisor(&self, stat: &Stat) -> Option<(InstanceId, Supervisor)> {
        let pid = stat.identity.pid;
        if stat.zombie || stat.session != pid {
            return None;
        }
        let mut words = procfs::words(pid);
        let folder = PathBuf::from(words.pop()?);
        let id = InstanceId::new(folder.strip_prefix(&self.instances).ok()?.to_str()?)?;
        let mark = Mark::read(pid);
        let ours = match &mark {
            Some(mark) => mark.instance == id.as_str() && mark.node == self.node,
            None => self.is_earlier(pid, words.get(1..).unwrap_or_default()),
        };
        if !ours || !procfs::is_own(pid) {
            let node = mark.map(|mark| mark.node);
            tracing::warn!(%id, pid, node, "left alone: it has our folder, and is not ours");
            return None;
        }
        Some((id, Supervisor { identity: stat.identity, mark }))
    }

    /// Whether it is a supervisor of a version that carried no mark: started with the words that ours
    /// are started with, from a program of the same name, and what it runs knows our node.
    fn is_earlier(&self, pid: i32, words: &[std::ffi::OsString]) -> bool {
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // Replaced by an update meanwhile, perhaps.
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        let same = self.supervisor.program.file_name() == Some(OsStr::new(name));
        let below = procfs::descendants(pid).unwrap_or_default();
        let node = |stat: &Stat| procfs::environment(stat.identity.pid).remove(NODE);
        let known = below.iter().find_map(node).is_some_and(|node| node == self.node);
        same && words == self.supervisor.args && known
    }

    fn orphan(
        &self,
        stat: &Stat,
        alone: impl Fn(&InstanceId) -> bool,
    ) -> Option<(InstanceId, Orphan)> {
        let pid = stat.identity.pid;
        if stat.zombie || !self.carries(pid) {
            return None;
        }
        let mut carried = procfs::environment(pid);
        let id = InstanceId::new(carried.get(INSTANCE)?).filter(alone)?;
        let run = carried.remove(RUN)?;
        // The number of a session is nobody else's while somebody is in it. So the session of a
        // supervisor that is gone has no leader, and one of the program's making has a leader of its kind.
        // Number 0 is a session that began outside of our container: no supervisor of ours leads it.
        let foreign =
            |leader: Stat| leader.identity.pid != pid && !self.carries(leader.identity.pid);
        if stat.session == 0 || procfs::stat(stat.session).is_some_and(foreign) {
            tracing::warn!(%id, pid, "left alone: it has our words, and the session of somebody else");
            return None;
        }
        Some((id, Orphan { stat: *stat, run }))
    }

    /// Whether a process was started as, or by, a program of this agent.
    fn carries(&self, pid: i32) -> bool {
        let carried = procfs::environment(pid);
        let is = |name: &str, value: &OsStr| {
            carried.get(name).is_some_and(|found| OsStr::new(found) == value)
        };
        is(AGENT, self.data_dir.as_os_str()) && is(NODE, OsStr::new(&self.node))
    }

    /// Leaves a record that makes whoever looks at it end the run. Of several runs all but one are ended
    /// here.
    fn note_orphans(&self, id: &InstanceId, orphans: &[Orphan]) -> io::Result<()> {
        let folder = self.folder(id);
        let known = Known::read(&folder);
        let runs: BTreeSet<&str> = orphans.iter().map(|orphan| orphan.run.as_str()).collect();
        let recorded = known.record.as_ref().map(|record| record.run.as_str());
        let named = recorded.filter(|run| runs.contains(run));
        let Some(left) = named.or(runs.last().copied()) else { return Ok(()) };
        for orphan in orphans.iter().filter(|orphan| orphan.run != left) {
            orphan.stat.identity.signal(Signal::KILL)?;
        }
        let first = orphans.iter().find(|orphan| orphan.run == left);
        let Some(first) = first.filter(|_| named.is_none() && !known.broken) else { return Ok(()) };
        let pid = first.stat.identity.pid;
        tracing::warn!(%id, pid, "found a program without a supervisor and a record; it is ended");
        let gone = Identity { pid: first.stat.session, start_ticks: 0 };
        let hash = SpecHash(String::new());
        let launch = Launch::new(left.to_owned(), hash, History::default(), STOP_DEFAULT);
        note(&folder, &launch, gone, first.stat.identity)
    }
}

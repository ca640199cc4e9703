//! What the machine and the instances use, measured when somebody asks.
//!
//! Processor time is a difference between two looks. The last look is kept; when it is too long ago
//! to say something about now, a first one is made and the second a moment later.
use crate::model::InstanceId;
use crate::procfs;
use orrery_proto::fleet::v1::{Load, LoadReport, ToServer, Usage, to_server};
use orrery_proto::infra::v1::NodeResources;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io, time::Duration};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Two looks that are this far apart say something about the present.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Questions under way; more are answered with what the first of them finds out.
const QUESTIONS_MAX: usize = 8;

const KIB: i64 = 1 << 10;

/// The processes of the live instances: the one below which everything of it is.
pub(crate) type Roots = BTreeMap<InstanceId, i32>;

/// Answers questions about the load.
pub(crate) struct Loads {
    to_server: mpsc::Sender<ToServer>,
    last: Arc<Mutex<Option<Sample>>>,
    tasks: JoinSet<()>,
}

impl Loads {
    pub(crate) fn new(to_server: mpsc::Sender<ToServer>) -> Self {
        Self { to_server, last: Arc::default(), tasks: JoinSet::new() }
    }

    /// Answers a question as soon as it can.
    pub(crate) fn answer(&mut self, stream: String, roots: Roots) {
        while self.tasks.try_join_next().is_some() {}
        if QUESTIONS_MAX <= self.tasks.len() {
            tracing::warn!("too many ask for the load at once; one of them is not answered");
            return;
        }
        let (to_server, last) = (self.to_server.clone(), self.last.clone());
        self.tasks.spawn(async move {
            match measure(&last, roots).await {
                Ok(load) => {
                    let report = LoadReport { stream, load: Some(load) };
                    let message = Some(to_server::Message::Load(report));
                    // Nobody waits for an answer on a connection that is gone.
                    let _ = to_server.send(ToServer { message }).await;
                }
                Err(error) => tracing::warn!(%error, "cannot measure the load"),
            }
        });
    }
}

/// One look.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    at: Instant,
    /// Time that all processors were busy, in clock ticks.
    busy_ticks: u64,
    memory_bytes: i64,
    /// Ticks and bytes of each instance.
    instances: BTreeMap<InstanceId, (u64, i64)>,
}

async fn measure(last: &Mutex<Option<Sample>>, roots: Roots) -> io::Result<Load> {
    let recent = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let now = Instant::now();
    let first = match recent {
        Some(sample) if is_useful(&sample, &roots, now) => sample,
        Some(_) | None => {
            let first = look(roots.clone()).await?;
            tokio::time::sleep(SHORTEST).await;
            first
        }
    };
    let second = look(roots).await?;
    let load = difference(&first, &second, ticks_per_second());
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(second);
    Ok(load)
}

fn is_useful(sample: &Sample, roots: &Roots, now: Instant) -> bool {
    let age = now.saturating_duration_since(sample.at);
    let known = roots.keys().all(|id| sample.instances.contains_key(id));
    known && SHORTEST <= age && age <= LONGEST
}

async fn look(roots: Roots) -> io::Result<Sample> {
    let at = Instant::now();
    let looked = tokio::task::spawn_blocking(move || {
        let busy_ticks = busy_ticks(&fs::read_to_string("/proc/stat")?);
        let (total, available) = memory(&fs::read_to_string("/proc/meminfo")?);
        let instances = roots.into_iter().map(|(id, root)| (id, tree(root)));
        let memory_bytes = total.saturating_sub(available);
        Ok(Sample { at, busy_ticks, memory_bytes, instances: instances.collect() })
    });
    looked.await.map_err(io::Error::other)?
}

/// What the processes below one, and the one itself, have used and use.
fn tree(root: i32) -> (u64, i64) {
    let below = procfs::descendants(root).unwrap_or_default();
    let pids = below.iter().map(|stat| stat.identity.pid).chain([root]);
    let page = i64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let used = pids
        .filter_map(procfs::used)
        .fold((0, 0), |(ticks, pages), used| (ticks + used.ticks, pages + used.resident_pages));
    (used.0, used.1.saturating_mul(page))
}

fn difference(first: &Sample, second: &Sample, ticks_per_second: u64) -> Load {
    let elapsed = second.at.saturating_duration_since(first.at);
    let cpu =
        |before: u64, after: u64| millis(after.saturating_sub(before), elapsed, ticks_per_second);
    let instances = second.instances.iter().map(|(id, (ticks, bytes))| {
        // One that was not there before has used nothing that is known.
        let before = first.instances.get(id).map_or(*ticks, |(ticks, _)| *ticks);
        let usage = Usage { cpu_millis: cpu(before, *ticks), memory_bytes: *bytes };
        (id.as_str().to_owned(), usage)
    });
    let node = Usage {
        cpu_millis: cpu(first.busy_ticks, second.busy_ticks),
        memory_bytes: second.memory_bytes,
    };
    Load { node: Some(node), instances: instances.collect() }
}

/// Thousandths of a processor.
fn millis(ticks: u64, elapsed: Duration, ticks_per_second: u64) -> i64 {
    let available = u128::from(ticks_per_second.max(1)) * elapsed.as_millis().max(1);
    i64::try_from(u128::from(ticks) * 1_000_000 / available).unwrap_or(i64::MAX)
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// The sum of all but idle time and waiting for disks.
fn busy_ticks(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields = line.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0));
    // user nice system idle iowait irq softirq steal; guest times are within user.
    fields
        .take(8)
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .map(|(_, ticks): (_, u64)| ticks)
        .sum()
}

/// Total and available bytes.
fn memory(meminfo: &str) -> (i64, i64) {
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_ascii_whitespace().next()?.parse::<i64>().ok()
    };
    let bytes = |name| value(name).unwrap_or_default().saturating_mul(KIB);
    (bytes("MemTotal"), bytes("MemAvailable"))
}

/// What workloads can have of this machine: all of it.
pub(crate) fn allocatable() -> Option<NodeResources> {
    let processors = std::thread::available_parallelism().ok()?.get();
    let (total, _) = memory(&fs::read_to_string("/proc/meminfo").ok()?);
    Some(NodeResources {
        cpu_millis: i64::try_from(processors).ok()?.saturating_mul(1000),
        memory_mib: total >> 20,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_read_right() {
        let stat = "cpu  10 1 20 400 50 3 4 5 6 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), 43);
        let meminfo = "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(memory(meminfo), (2 << 20, 1 << 20));
        assert_eq!((busy_ticks(""), memory("")), (0, (0, 0)));
    }

    #[tokio::test(start_paused = true)]
    async fn use_is_a_difference_between_two_looks() {
        let id = InstanceId::new("i-1").unwrap();
        let sample = |at, busy_ticks, ticks| Sample {
            at,
            busy_ticks,
            memory_bytes: 7,
            instances: [(id.clone(), (ticks, 4096))].into(),
        };
        let start = Instant::now();
        let (first, second) =
            (sample(start, 100, 10), sample(start + Duration::from_secs(2), 300, 110));
        let load = difference(&first, &second, 100);
        assert_eq!(load.node.unwrap(), Usage { cpu_millis: 1000, memory_bytes: 7 });
        assert_eq!(load.instances["i-1"], Usage { cpu_millis: 500, memory_bytes: 4096 });
        let fresh = Sample { instances: BTreeMap::new(), ..first };
        assert_eq!(difference(&fresh, &second, 100).instances["i-1"].cpu_millis, 0);
    }

    #[tokio::test]
    async fn this_process_uses_something() {
        let id = InstanceId::new("me").unwrap();
        let roots = Roots::from([(id, procfs::myself().unwrap().pid)]);
        let load = measure(&Mutex::default(), roots).await.unwrap();
        assert!(0 < load.instances["me"].memory_bytes && 0 < load.node.unwrap().memory_bytes);
    }
}

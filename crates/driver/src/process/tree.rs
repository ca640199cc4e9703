//! The processes of a machine.
use super::Placed;
use super::network;
use crate::Error;
use crate::records::USER_DATA;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a new machine may take to enter its namespace.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How `flock` says that the machine is alive.
const ALIVE_ALREADY: i32 = 75;
/// How long processes may take to end by themselves.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the kernel may take to end those that are killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The first process of a machine: names it, runs what it should run, and ends with that. It stays
/// in between because the kernel keeps a first process from being ended by a plain signal.
const INIT: &str = r#"hostname "$1"; shift
trap 'kill -TERM $child 2>/dev/null' TERM
"$@" & child=$!
while kill -0 $child 2>/dev/null; do wait $child; done"#;
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(super) struct Tree {
    namespace: String,
    folder: PathBuf,
}

impl Tree {
    pub fn new(namespace: String, folder: PathBuf) -> Self {
        Self { namespace, folder }
    }

    pub async fn pids(&self) -> Result<Vec<i32>, Error> {
        network::pids(&self.namespace).await
    }

    /// Starts the machine and waits until it is in its namespace. It belongs to nobody: it goes on
    /// when the driver ends. It holds a lock for as long as it lives, so there is never a second one,
    /// even if an attempt was broken off in the middle of this.
    pub async fn start(
        &self,
        record: &Placed,
        command: &[String],
        env: &BTreeMap<String, String>,
        gateway: Ipv4Addr,
    ) -> Result<(), Error> {
        let mut start = self.command(record, command)?;
        start
            .env("ORRERY_GATEWAY", gateway.to_string())
            .env("ORRERY_USER_DATA", self.folder.join(USER_DATA))
            .envs(env);
        let child = start.spawn().map_err(|error| failed("start the machine", &error))?;
        self.begun(child).await
    }

    fn command(&self, record: &Placed, command: &[String]) -> Result<Command, Error> {
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.map_err(|error| failed("open the log of the machine", &error))?;
        let errors = log.try_clone().map_err(|error| failed("open the log twice", &error))?;
        let mut start = Command::new("flock");
        start.args(["--nonblock", "--conflict-exit-code", &ALIVE_ALREADY.to_string(), "alive"]);
        start.args(["ip", "netns", "exec", &self.namespace]);
        start.args(["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"]);
        start.args(["sh", "-c", INIT, "init", &record.name]);
        start.args(command);
        start.env_clear().env("PATH", SEARCH_PATH);
        start.env("ORRERY_MACHINE_NAME", &record.name);
        start.env("ORRERY_ADDRESS", record.extra.address.to_string());
        start.current_dir(&self.folder).process_group(0);
        start.stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(start)
    }

    /// Waits until the machine is seen, or has ended already.
    async fn begun(&self, mut child: Child) -> Result<(), Error> {
        let until = Instant::now() + START_TIMEOUT;
        while self.pids().await?.is_empty() {
            let ended = child.try_wait().map_err(|error| failed("watch the machine", &error))?;
            if ended.is_some_and(|status| status.code() != Some(ALIVE_ALREADY)) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Error::unavailable("the machine did not start in time"));
            }
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Ends every process of the machine: asks first, then insists. With its first process, all
    /// others in its process namespace end too.
    pub async fn end(&self) -> Result<(), Error> {
        if self.ended_after(Signal::TERM, TERMINATE_TIMEOUT).await?
            || self.ended_after(Signal::KILL, KILL_TIMEOUT).await?
        {
            return Ok(());
        }
        let left = self.pids().await?;
        Err(Error::unavailable(format!("processes {left:?} of the machine do not end")))
    }

    /// Sends the signal once to each process, also to those that are born meanwhile.
    async fn ended_after(&self, signal: Signal, limit: Duration) -> Result<bool, Error> {
        let until = Instant::now() + limit;
        let mut told = BTreeSet::new();
        loop {
            let left = self.pids().await?;
            if left.is_empty() || Instant::now() >= until {
                return Ok(left.is_empty());
            }
            for pid in left {
                if told.insert(pid) {
                    send(pid, signal)?;
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::internal(format!("{what}: {error}"))
}

fn send(pid: i32, signal: Signal) -> Result<(), Error> {
    let Some(target) = Pid::from_raw(pid) else { return Ok(()) };
    match kill_process(target, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::internal(format!("end process {pid}: {error}"))),
    }
}

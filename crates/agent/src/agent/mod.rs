//! The shell around the plan: one loop that owns all state, and tasks that do what takes time.
//!
//! ```text
//!   server messages --+
//!   finished tasks  --+--> the loop: update one instance, plan it, start one task, note its state
//!   wake-ups        --+                                                  |
//!   room to report  --+--> send the latest states <----------------------+
//! ```
//!
//! Each instance has at most one task that acts on it, and one that waits for the end of its run.
mod ground;
mod health;
mod inbox;
mod instance;
mod status;
mod work;

#[cfg(test)]
mod tests;

use crate::Error;
use crate::config::{AgentConfig, OnStop};
use crate::dependencies::Dependencies;
use crate::execs::Execs;
use crate::files::Files;
use crate::load::Loads;
use crate::logs::Logs;
use crate::model::InstanceId;
use crate::plan::{Timing, plan};
use crate::report::Reporter;
use crate::runtime::podman::{self, PodmanRuntime};
use crate::runtime::process::{NodeNames, ProcessRuntime, unrecorded};
use crate::runtime::{Runtime, Runtimes};
use crate::volumes::Volumes;
use ground::Ground;
use instance::Instance;
use orrery_proto::fleet::v1::{AgentGoodbye, Assignment, FromServer, ToServer, to_server};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{future::pending, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use work::{Event, Tools};

/// How long the last words of an agent may take when the connection is slow or gone.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// What an agent that stops its workloads allows beyond their grace for them to be killed, twice.
const HALT_SLACK: Duration = Duration::from_secs(5);

/// Runs the agent until `stop` is cancelled.
///
/// The holder of the connection sends the hello. States are reported after each `ServerHello`; when
/// `from_server` is closed the agent goes on without a server.
pub async fn run(
    config: AgentConfig,
    to_server: mpsc::Sender<ToServer>,
    from_server: mpsc::Receiver<FromServer>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let sender = to_server.clone();
    let config = Arc::new(config);
    let here = config.clone();
    let ground = tokio::task::spawn_blocking(move || Ground::take(&here)).await??;
    let home = ground.home(&config);
    unrecorded::recover(home.clone()).await?;
    podman::recover(&home, &config).await?;
    let opened = tokio::task::spawn_blocking(move || Agent::open(&config, ground, sender)).await?;
    let (mut agent, _ground) = opened?;
    let mut link = Link { to_server, from_server, open: true };
    agent.serve(&mut link, &stop).await?;
    let outcome = match agent.on_stop {
        OnStop::StopWorkloads => agent.halt(&mut link).await,
        OnStop::LeaveRunning => Ok(()),
    };
    goodbye(&link);
    outcome
}

/// Nobody waits for a farewell.
fn goodbye(link: &Link) {
    let goodbye = AgentGoodbye { reason: "the agent was asked to stop".to_owned() };
    let message = ToServer { message: Some(to_server::Message::Goodbye(goodbye)) };
    if link.to_server.try_send(message).is_err() {
        tracing::debug!("the connection has no room for a goodbye");
    }
}

/// The two channels to whoever holds the connection.
struct Link {
    to_server: mpsc::Sender<ToServer>,
    from_server: mpsc::Receiver<FromServer>,
    /// Whether something can still come from the server.
    open: bool,
}

struct Agent {
    instances: BTreeMap<InstanceId, Instance>,
    /// When to look at which instance again.
    wakes: BTreeSet<(Instant, InstanceId)>,
    tasks: JoinSet<(InstanceId, Event)>,
    reporter: Reporter,
    dependencies: Dependencies,
    talk: Talk,
    tools: Tools,
    timing: Timing,
    on_stop: OnStop,
    /// Instances that were found on disk and not yet looked at. The server has to wait for them, so
    /// that the first report is the truth.
    unseen: BTreeSet<InstanceId>,
    halting: bool,
    warned_of_unknown: bool,
}

/// What the agent says when it is asked, beside the states.
struct Talk {
    logs: Logs,
    execs: Execs,
    loads: Loads,
}

impl Talk {
    fn new(
        instances: PathBuf,
        runtime: Arc<dyn Runtime>,
        to_server: mpsc::Sender<ToServer>,
    ) -> Self {
        Self {
            logs: Logs::new(instances, to_server.clone()),
            execs: Execs::new(runtime, to_server.clone()),
            loads: Loads::new(to_server),
        }
    }
}

impl Agent {
    fn open(
        config: &AgentConfig,
        ground: Ground,
        to_server: mpsc::Sender<ToServer>,
    ) -> Result<(Self, Ground), Error> {
        let Ground { data_dir, assignments, .. } = &ground;
        let found = assignments.load().map_err(ground::trouble(data_dir))?;
        let dependencies = Dependencies::open(data_dir);
        let instances = assignments.instances().to_owned();
        let runtime = runtimes(config, instances.clone());
        let talk = Talk::new(instances, runtime.clone(), to_server);
        let volumes = Volumes::new(data_dir, config.volumes.clone());
        let files = Files::new(&config.run_dir);
        let tools = Tools::new(runtime, assignments.clone(), files, volumes);
        let mut agent = Self::new(config, tools, found, talk);
        agent.dependencies = dependencies;
        Ok((agent, ground))
    }

    fn new(
        config: &AgentConfig,
        tools: Tools,
        found: BTreeMap<InstanceId, Option<Assignment>>,
        talk: Talk,
    ) -> Self {
        let now = Instant::now();
        Self {
            unseen: found.keys().cloned().collect(),
            instances: found
                .into_iter()
                .map(|(id, assignment)| (id.clone(), Instance::found(&id, assignment, now)))
                .collect(),
            wakes: BTreeSet::new(),
            tasks: JoinSet::new(),
            reporter: Reporter::default(),
            dependencies: Dependencies::default(),
            talk,
            tools,
            timing: config.timing,
            on_stop: config.on_stop,
            halting: false,
            warned_of_unknown: false,
        }
    }

    async fn serve(&mut self, link: &mut Link, stop: &CancellationToken) -> Result<(), Error> {
        self.drive_all();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                outcome = self.turn(link) => outcome?,
            }
        }
    }

    /// Waits for one thing to happen and deals with it. Dropping it while it waits loses nothing.
    async fn turn(&mut self, link: &mut Link) -> Result<(), Error> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        let listening = link.open && self.unseen.is_empty() && !self.halting;
        tokio::select! {
            Some(done) = self.tasks.join_next() => {
                let (id, event) = done?;
                self.happened(&id, event);
            }
            () = until(wake) => self.wake_up(),
            message = link.from_server.recv(), if listening => match message {
                Some(message) => self.receive(message),
                None => link.open = false,
            },
            room = link.to_server.reserve(), if self.reporter.has_news() => match room {
                Ok(room) => room.send(self.reporter.take()),
                Err(_closed) => self.reporter.unheard(),
            },
        }
        Ok(())
    }

    fn wake_up(&mut self) {
        let now = Instant::now();
        while let Some((_, id)) = self.wakes.first().filter(|(at, _)| *at <= now).cloned() {
            self.wakes.pop_first();
            if let Some(instance) = self.instances.get_mut(&id) {
                instance.wake = None;
            }
            self.probe(&id);
            self.drive(&id);
        }
    }

    fn drive_all(&mut self) {
        let ids: Vec<InstanceId> = self.instances.keys().cloned().collect();
        ids.iter().for_each(|id| self.drive(id));
    }

    /// Plans one instance, notes its state, and begins the action if there is one.
    fn drive(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        if instance.busy {
            return;
        }
        instance.note_files(id, self.tools.files());
        let desired = instance.desired(self.halting, &self.dependencies);
        let planned = plan(&desired, &instance.observed, &self.timing, Instant::now());
        let wake = planned.wake.into_iter().chain(instance.health.wake()).min();
        let old_wake = std::mem::replace(&mut instance.wake, wake);
        // Before the first look there is nothing to say.
        if instance.observed.known || instance.observed.trouble.is_some() {
            instance.log(id, &planned.words);
            let mut status = instance.status(&planned.words);
            status.container = self.tools.container(id).unwrap_or_default();
            self.reporter.set(id, status);
        }
        if let Some(action) = planned.action {
            instance.busy = true;
            let order = instance.order(id, action, desired);
            self.tasks.spawn(work::act(self.tools.clone(), order));
        }
        self.set_wake(id, old_wake, wake);
    }

    fn set_wake(&mut self, id: &InstanceId, old: Option<Instant>, new: Option<Instant>) {
        if let Some(old) = old {
            self.wakes.remove(&(old, id.clone()));
        }
        if let Some(new) = new {
            self.wakes.insert((new, id.clone()));
        }
    }

    /// Takes in what a task has to say.
    fn happened(&mut self, id: &InstanceId, event: Event) {
        let now = Instant::now();
        let Some(instance) = self.instances.get_mut(id) else { return };
        let removed = instance.happened(id, event, now);
        if instance.observed.known || instance.observed.trouble.is_some() {
            self.unseen.remove(id);
        }
        if removed {
            self.forget(id);
        } else {
            self.watch(id);
            self.drive(id);
        }
    }

    /// Sees to it that the end of a live run is noticed. After a watch that failed it is looked at first,
    /// which the plan does when some time has passed; watching again at once would fail again at once.
    fn watch(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        if instance.is_live() && instance.observed.known && !instance.watched {
            instance.watched = true;
            self.tasks.spawn(work::watch(self.tools.clone(), id.clone()));
        }
    }

    /// Asks a live run how it is, where it is time to.
    fn probe(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        for question in instance.health.questions(Instant::now()) {
            self.tasks.spawn(work::ask(self.tools.clone(), id.clone(), question));
        }
    }

    fn forget(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.remove(id) else { return };
        self.set_wake(id, instance.wake, None);
        self.reporter.removed(id, instance.generation());
    }

    /// Stops all workloads at once, each within its own grace.
    async fn halt(&mut self, link: &mut Link) -> Result<(), Error> {
        self.halting = true;
        self.drive_all();
        let longest = self.instances.values().filter(|instance| !instance.is_settled());
        let longest =
            longest.map(|instance| instance.desired(true, &self.dependencies).grace).max();
        let patience = longest.unwrap_or_default() + 2 * self.timing.kill_patience + HALT_SLACK;
        let deadline = Instant::now() + patience;
        while self.instances.values().any(|instance| !instance.is_settled()) {
            match timeout_at(deadline, self.turn(link)).await {
                Ok(outcome) => outcome?,
                Err(_elapsed) => break,
            }
        }
        self.flush(link).await;
        self.not_stopped()
    }

    fn not_stopped(&self) -> Result<(), Error> {
        let left = self.instances.iter().filter(|(_, instance)| !instance.is_settled());
        let ids: Vec<String> = left.map(|(id, _)| id.as_str().to_owned()).collect();
        if ids.is_empty() { Ok(()) } else { Err(Error::NotStopped { ids }) }
    }

    async fn flush(&mut self, link: &mut Link) {
        while self.reporter.has_news() {
            match timeout(FLUSH_PATIENCE, link.to_server.reserve()).await {
                Ok(Ok(room)) => room.send(self.reporter.take()),
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}

fn runtimes(config: &AgentConfig, instances: PathBuf) -> Arc<dyn Runtime> {
    let name = || config.name.clone();
    let data_dir = instances.parent().unwrap_or(&instances).to_owned();
    let of_node =
        NodeNames { node: name(), server: config.server.clone(), data_dir: data_dir.clone() };
    let process = ProcessRuntime::new(instances.clone(), of_node, config.supervisor.clone());
    let run_dir = config.run_dir.clone();
    let (podman, supervisor) = (config.podman.clone(), config.supervisor.clone());
    let podman = PodmanRuntime::new(data_dir, name(), podman, run_dir, supervisor);
    Arc::new(Runtimes::new(process, podman))
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

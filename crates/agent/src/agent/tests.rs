//! The loop with a runtime that is played by the test, on a paused clock.
use super::*;
use crate::assignments::Assignments;
use crate::config::SupervisorCommand;
use crate::model::{Exit, Run, RunState, UnixMillis};
use crate::runtime::exec::{ExecRequest, Executing};
use crate::runtime::{RuntimeError, StartRequest, StopRequest};
use crate::volumes::Volumes;
use orrery_proto::apps::v1::{Process, WorkloadInstanceSpec, workload_instance_spec};
use orrery_proto::fleet::v1::{AssignmentSet, ServerHello, ServerMessage, server_message::Message};
use parking::Parking;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

mod parking;

/// What the programs of the played runtime do.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    /// End with an error as soon as they are started.
    Crash,
    /// Run on, whatever is asked of them.
    Ignore,
    /// Run on, and nobody can say how they are.
    Hide,
}

struct Played {
    habit: Habit,
    starts: AtomicUsize,
    waits: AtomicUsize,
    runs: Parking<InstanceId, Run>,
}

impl Played {
    fn new(habit: Habit) -> Arc<Self> {
        let (starts, waits) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { habit, starts, waits, runs: Parking::default() })
    }
}

#[async_trait::async_trait]
impl Runtime for Played {
    async fn start(&self, request: &StartRequest) -> Result<Run, RuntimeError> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let state = RunState::Running { pid: 1, started_at: UnixMillis(1) };
        let (hash, history) = (request.hash.clone(), request.history);
        let run = Run { hash, history, state, warning: None, stop: None };
        self.runs.put(request.id.clone(), run.clone());
        Ok(run)
    }

    async fn inspect(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        Ok(self.runs.get(id))
    }

    async fn wait(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        match self.habit {
            Habit::Ignore => return pending().await,
            Habit::Hide => return Err(RuntimeError::Podman("hidden".into())),
            Habit::Crash => {}
        }
        let exit = Exit::Code(1);
        let (started_at, finished_at) = (UnixMillis(1), UnixMillis(2));
        let ran = Duration::ZERO;
        let state = RunState::Ended { exit, interrupted: false, started_at, finished_at, ran };
        Ok(self.runs.get(id).map(|run| Run { state, ..run }))
    }

    async fn stop(&self, _: &InstanceId, _: StopRequest) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn kill(&self, _: &InstanceId) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn remove(&self, _: &InstanceId) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn exec(&self, _: &InstanceId, _: ExecRequest) -> Result<Executing, RuntimeError> {
        Err(RuntimeError::Unsupported)
    }

    async fn address(&self, _: &InstanceId) -> Result<IpAddr, RuntimeError> {
        Err(RuntimeError::Unsupported)
    }

    fn root(&self, _: &InstanceId, _: i32) -> Option<i32> {
        None
    }

    fn container(&self, _: &InstanceId) -> Option<String> {
        None
    }
}

struct Stage {
    agent: Agent,
    link: Link,
    heard: mpsc::Receiver<ToServer>,
    _dir: tempfile::TempDir,
}

/// An agent with these many instances, all assigned, that nobody listens to.
fn stage(runtime: Arc<Played>, instances: usize) -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = SupervisorCommand { program: "unused".into(), args: Vec::new() };
    let config = AgentConfig::new("n", dir.path(), supervisor);
    let assignments = Assignments::open(dir.path()).unwrap();
    let volumes = Volumes::new(dir.path(), None);
    let tools = Tools::new(runtime.clone(), assignments, Files::new(dir.path()), volumes);
    let (to_server, heard) = mpsc::channel(1);
    let talk = Talk::new(dir.path().to_owned(), runtime, to_server.clone());
    let mut agent = Agent::new(&config, tools, BTreeMap::new(), talk);
    let (_to_agent, from_server) = mpsc::channel(1);
    let hello = Message::Hello(ServerHello::default());
    let assignments = (0..instances).map(|number| assignment(&format!("i{number}"))).collect();
    let set = Message::Set(AssignmentSet { assignments });
    let messages = [hello, set].map(|message| ServerMessage { message: Some(message) });
    agent.receive(FromServer { messages: messages.into() });
    let link = Link { to_server, from_server, open: false };
    Stage { agent, link, heard, _dir: dir }
}

fn assignment(id: &str) -> Assignment {
    let process = Process { command: Some("serve".into()), ..Process::default() };
    let runtime = Some(workload_instance_spec::Runtime::Process(process));
    let spec = Some(WorkloadInstanceSpec { runtime, ..WorkloadInstanceSpec::default() });
    Assignment { id: id.into(), generation: 1, spec, ..Assignment::default() }
}

fn states(message: ToServer) -> Vec<String> {
    match message.message {
        Some(to_server::Message::States(states)) => {
            states.states.into_iter().map(|state| state.id).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// proves: AGT-14
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_watched_is_looked_at_with_pauses() {
    let runtime = Played::new(Habit::Hide);
    let mut stage = stage(runtime.clone(), 1);
    let begin = Instant::now();
    let patience = 10 * stage.agent.timing.retry_after;
    let turns = async {
        loop {
            stage.agent.turn(&mut stage.link).await.unwrap();
        }
    };
    // On a paused clock time passes only when nothing is left to do, so a loop without pauses never ends.
    let attempts = async {
        while Instant::now() < begin + patience && runtime.waits.load(Ordering::Relaxed) < 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = turns => {}
        () = attempts => {}
    }
    let waits = runtime.waits.load(Ordering::Relaxed);
    assert!((2..=11).contains(&waits), "watched {waits} times");
    assert_eq!(runtime.starts.load(Ordering::Relaxed), 1);
}

/// proves: AGT-14
#[tokio::test(start_paused = true)]
async fn thousands_of_changes_wait_in_the_room_of_a_few() {
    const INSTANCES: usize = 20;
    let runtime = Played::new(Habit::Crash);
    let mut stage = stage(runtime.clone(), INSTANCES);
    while runtime.starts.load(Ordering::Relaxed) < 2_000 {
        stage.agent.turn(&mut stage.link).await.unwrap();
    }
    // One message went into the channel before it was full. All the others became one.
    let first = states(stage.heard.try_recv().unwrap());
    assert!(first.len() <= INSTANCES);
    stage.agent.flush(&mut stage.link).await;
    let all = states(stage.heard.try_recv().unwrap());
    let expect: BTreeSet<String> = (0..INSTANCES).map(|number| format!("i{number}")).collect();
    assert_eq!(all.len(), INSTANCES, "each of them once");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expect);
    assert!(stage.heard.try_recv().is_err(), "and nothing more");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stopped_does_not_hold_up_the_agent_for_ever() {
    let runtime = Played::new(Habit::Ignore);
    let mut stage = stage(runtime.clone(), 2);
    while stage.agent.instances.values().filter(|instance| instance.is_live()).count() < 2 {
        stage.agent.turn(&mut stage.link).await.unwrap();
    }
    let error = stage.agent.halt(&mut stage.link).await.unwrap_err();
    assert_eq!(error.to_string(), "the agent stopped, but these instances did not: i0, i1");
    let said: Vec<String> = std::iter::from_fn(|| stage.heard.try_recv().ok())
        .map(|message| format!("{message:?}"))
        .collect();
    assert!(!said.is_empty());
}

/// A full disk, for example: nobody is told that a copy cannot start which is being removed.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_noted_of_a_removal_is_a_stop_that_failed() {
    use super::work::Event;
    use crate::plan::{Action, Phase};
    let id = InstanceId::new("0a32fbfb-b60c-442e-b242-04e065e37872").unwrap();
    let mut instance = Instance::assigned(&id, Assignment::default(), Instant::now());
    let fails_to_save = |instance: &mut Instance| {
        let outcome = Err("no space left".to_owned());
        instance.happened(&id, Event::Done { action: Action::Save, outcome }, Instant::now());
        instance.observed.trouble.clone().unwrap().phase
    };
    assert_eq!(fails_to_save(&mut instance), Phase::PendingStartingFailed);
    instance.unassign(&id);
    assert_eq!(fails_to_save(&mut instance), Phase::StoppingFailed);
}

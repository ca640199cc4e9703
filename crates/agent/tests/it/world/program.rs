//! Programs for the agent to run, and ways to look at what they do.
use super::PATIENCE;
use orrery_proto::apps::v1::{
    Dependency, Podman, Process, WorkloadInstanceSpec, workload_instance_spec::Runtime,
};
use orrery_proto::fleet::v1::Assignment;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::{fs, path::Path, time::Duration};
use tokio::time::{Instant, sleep};

/// A program as it is assigned. Its fields may be changed between assignments.
#[derive(Clone)]
pub struct Program {
    pub id: String,
    pub generation: i64,
    pub removing: bool,
    pub spec: WorkloadInstanceSpec,
}

impl Program {
    pub fn script(dir: &Path, text: &str) -> Self {
        let text = format!("T={}\n{text}", dir.display());
        Self::command("/bin/sh", &["-c", &text])
    }

    pub fn command(command: &str, args: &[&str]) -> Self {
        let process = Process {
            command: Some(command.to_owned()),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            ..Process::default()
        };
        let spec = WorkloadInstanceSpec {
            workload: Some("web".into()),
            node: Some("node-1".into()),
            runtime: Some(Runtime::Process(process)),
            ..WorkloadInstanceSpec::default()
        };
        let id = uuid::Uuid::new_v4().to_string();
        Self { id, generation: 1, removing: false, spec }
    }

    /// The same copy as a container.
    pub fn contained(mut self, podman: Podman) -> Self {
        self.spec.runtime = Some(Runtime::Podman(podman));
        self
    }

    pub fn restart(mut self, policy: &str) -> Self {
        self.spec.restart_policy = Some(policy.to_owned());
        self
    }

    /// Starts only when this workload runs.
    pub fn after(mut self, workload: &str) -> Self {
        let dependency = Dependency { workload: Some(workload.to_owned()), condition: None };
        self.spec.depends_on.push(dependency);
        self
    }

    pub fn grace(mut self, seconds: i32) -> Self {
        self.spec.stop_grace_seconds = Some(seconds);
        self
    }

    pub fn process(&mut self) -> &mut Process {
        let Some(Runtime::Process(process)) = &mut self.spec.runtime else { panic!("a process") };
        process
    }

    /// The same instance with the next generation of this definition.
    pub fn becomes(&self, other: Program) -> Self {
        Self { id: self.id.clone(), generation: self.generation + 1, ..other }
    }

    pub fn assignment(&self) -> Assignment {
        Assignment {
            id: self.id.clone(),
            project: "shop".into(),
            name: "web-1".into(),
            generation: self.generation,
            spec: Some(self.spec.clone()),
            removing: self.removing,
            ..Assignment::default()
        }
    }
}

/// Waits until the condition gives something.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    mut condition: impl FnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    let what = what.to_owned();
    async move {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = condition() {
                return value;
            }
            assert!(Instant::now() < deadline, "{caller}: waited in vain for {what}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The text of a file that a program writes, once it is there.
pub async fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref().to_owned();
    let what = path.display().to_string();
    let text = move || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'));
    wait_for(&what, text).await.trim().to_owned()
}

/// Waits until a file has so many whole lines, and returns them.
pub async fn read_lines(path: impl AsRef<Path>, count: usize) -> Vec<String> {
    let path = path.as_ref().to_owned();
    let what = format!("{count} lines in {}", path.display());
    let lines = move || {
        let text = fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() == count).then_some(lines)
    };
    wait_for(&what, lines).await
}

fn pid(pid: i64) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Whether the process exists and has not ended.
pub fn exists(number: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let zombie = stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim().starts_with('Z'));
    test_kill_process(pid(number)).is_ok() && !zombie
}

pub async fn wait_gone(number: i64) {
    wait_for(&format!("the end of {number}"), || (!exists(number)).then_some(())).await;
}

pub fn try_kill(number: i64) -> rustix::io::Result<()> {
    kill_process(pid(number), Signal::KILL)
}

pub fn kill(number: i64, signal: Signal) {
    kill_process(pid(number), signal).unwrap();
}

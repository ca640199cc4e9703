//! What an assignment asks for, in the words of the plan.
use crate::model::{InstanceId, RestartPolicy, SpecHash, StopSignal};
use crate::plan::{Desired, Goal};
use orrery_proto::apps::v1::{
    Dependency, Podman, Process, WorkloadInstanceSpec, workload_instance_spec::Runtime,
};
use orrery_proto::fleet::v1::Assignment;
use prost::Message;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What the contract says when nothing is written; the server fills these in, but an agent must not
/// depend on it.
const GRACE_DEFAULT_SECONDS: i32 = 10;

/// What is wanted of an assigned instance.
pub(crate) fn desired(id: &InstanceId, assignment: &Assignment) -> Desired {
    let spec = assignment.spec.clone().unwrap_or_default();
    let goal = match (assignment.removing, spec.held()) {
        (true, _) => Goal::Remove,
        (false, true) => Goal::Rest,
        (false, false) => Goal::Run,
    };
    let restart = restart_policy(&spec);
    let signal = stop_signal(&spec);
    let blocked = restart
        .as_ref()
        .err()
        .or(signal.as_ref().err())
        .or(runnable(&spec).as_ref().err())
        .or(dependencies(&spec).as_ref().err())
        .cloned();
    Desired {
        goal,
        hash: spec_hash(&spec),
        restart: restart.unwrap_or(RestartPolicy::Never),
        stop_signal: signal.unwrap_or(StopSignal::Term),
        grace: grace(&spec),
        blocked,
        waiting: None,
        unhealthy: None,
        unready: None,
        jitter_seed: jitter_seed(id),
    }
}

/// How far a dependency must have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyCondition {
    Running,
    Succeeded,
    Failed,
}

impl DependencyCondition {
    /// A newer server may know more conditions than this agent.
    pub(crate) fn of(dependency: &Dependency) -> Result<Self, String> {
        match dependency.condition.as_deref() {
            None | Some("running") => Ok(Self::Running),
            Some("succeeded") => Ok(Self::Succeeded),
            Some("failed") => Ok(Self::Failed),
            Some(name) => Err(format!("this agent does not know the condition {name:?}")),
        }
    }

    /// The state of a workload in which it holds.
    pub(crate) fn state(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

fn dependencies(spec: &WorkloadInstanceSpec) -> Result<(), String> {
    spec.depends_on.iter().try_for_each(|needed| DependencyCondition::of(needed).map(|_| ()))
}

/// What is wanted of an instance whose assignment cannot be read: nothing, until the server speaks.
pub(crate) fn unassigned(id: &InstanceId) -> Desired {
    Desired { goal: Goal::Hold, blocked: None, ..desired(id, &Assignment::default()) }
}

fn restart_policy(spec: &WorkloadInstanceSpec) -> Result<RestartPolicy, String> {
    match spec.restart_policy.as_deref() {
        None => Ok(RestartPolicy::Always),
        Some(name) => RestartPolicy::parse(name)
            .ok_or_else(|| format!("this agent does not know the restart policy {name:?}")),
    }
}

fn stop_signal(spec: &WorkloadInstanceSpec) -> Result<StopSignal, String> {
    match spec.stop_signal.as_deref() {
        None => Ok(StopSignal::Term),
        Some(name) => StopSignal::parse(name)
            .ok_or_else(|| format!("this agent does not know the stop signal {name:?}")),
    }
}

fn grace(spec: &WorkloadInstanceSpec) -> Duration {
    let seconds = spec.stop_grace_seconds.unwrap_or(GRACE_DEFAULT_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// A newer server may speak of a runtime that this agent has never heard of.
fn runnable(spec: &WorkloadInstanceSpec) -> Result<(), String> {
    match &spec.runtime {
        None => Err("this agent has no runtime for it; a newer agent may have".to_owned()),
        Some(Runtime::Process(process)) => runnable_process(process),
        Some(Runtime::Podman(podman)) => no_zero_bytes(&podman.command, &podman.args, &podman.env),
    }
}

/// What the kernel would take for the end of a string cannot be in one.
fn runnable_process(process: &Process) -> Result<(), String> {
    let texts = [process.command.clone(), process.working_directory.clone()];
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    no_zero_bytes(&texts, &process.args, &process.env)
}

fn no_zero_bytes(
    texts: &[String],
    args: &[String],
    env: &HashMap<String, String>,
) -> Result<(), String> {
    let pairs = env.iter().flat_map(|(name, value)| [name, value]);
    if texts.iter().chain(args).chain(pairs).any(|text| text.contains('\0')) {
        return Err("its command, arguments or environment contain a zero byte".to_owned());
    }
    match env.keys().find(|name| name.is_empty() || name.contains('=')) {
        Some(name) => Err(format!("{name:?} cannot be the name of an environment variable")),
        None => Ok(()),
    }
}

/// Fingerprint of what the program is made of. Restart policy, stop signal and grace are not part of
/// it: they concern how the agent treats the program, and take effect without replacing it.
fn spec_hash(spec: &WorkloadInstanceSpec) -> SpecHash {
    let mut digest = Sha256::new();
    match &spec.runtime {
        None => add(&mut digest, "none"),
        Some(Runtime::Process(process)) => add_process(&mut digest, process),
        Some(Runtime::Podman(podman)) => add_podman(&mut digest, podman),
    }
    add_surroundings(&mut digest, spec);
    for mount in &spec.volumes {
        [mount.volume(), mount.path()].iter().for_each(|text| add(&mut digest, text));
        digest.update([u8::from(mount.read_only())]);
    }
    if let Some(time) = &spec.restarted_at {
        add(&mut digest, "restarted");
        add(&mut digest, time);
    }
    let bytes = digest.finalize();
    SpecHash(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add_process(digest: &mut Sha256, process: &Process) {
    let Process { command, args, env, working_directory, user, limits } = process;
    add(digest, "process");
    add_option(digest, command.as_deref());
    add_option(digest, working_directory.as_deref());
    digest.update((args.len() as u64).to_le_bytes());
    args.iter().for_each(|arg| add(digest, arg));
    // The map of the wire type has no order of its own.
    for (name, value) in env.iter().collect::<BTreeMap<_, _>>() {
        add(digest, name);
        add(digest, value);
    }
    // What came later is added only where it is used: older programs keep their fingerprint.
    if let Some(user) = user {
        add(digest, user);
    }
    if let Some(limits) = limits {
        digest.update(limits.encode_to_vec());
    }
}

fn add_podman(digest: &mut Sha256, podman: &Podman) {
    add(digest, "podman");
    // Without its map the message has one encoding only.
    let mut rest = podman.clone();
    for (name, value) in std::mem::take(&mut rest.env).into_iter().collect::<BTreeMap<_, _>>() {
        add(digest, &name);
        add(digest, &value);
    }
    digest.update(rest.encode_to_vec());
}

/// Limits and files are part of the program's world; what it asks of a node to be placed is not.
fn add_surroundings(digest: &mut Sha256, spec: &WorkloadInstanceSpec) {
    if let Some(limits) = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref()) {
        digest.update(limits.encode_to_vec());
    }
    for file in &spec.files {
        digest.update(file.encode_to_vec());
    }
    if !spec.files.is_empty() {
        add(digest, spec.files_revision());
    }
}

fn add_option(digest: &mut Sha256, text: Option<&str>) {
    digest.update([u8::from(text.is_some())]);
    add(digest, text.unwrap_or_default());
}

/// With its length in front, so that no two lists of texts read the same.
fn add(digest: &mut Sha256, text: &str) {
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text.as_bytes());
}

fn jitter_seed(id: &InstanceId) -> u64 {
    let bytes = Sha256::digest(id.as_str().as_bytes());
    bytes.iter().take(8).fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(edit: impl FnOnce(&mut Process)) -> Assignment {
        let mut process = Process {
            command: Some("serve".into()),
            args: vec!["a".into(), "b".into()],
            env: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())].into(),
            ..Process::default()
        };
        edit(&mut process);
        let spec = WorkloadInstanceSpec {
            runtime: Some(Runtime::Process(process)),
            ..WorkloadInstanceSpec::default()
        };
        Assignment { id: "x".into(), spec: Some(spec), ..Assignment::default() }
    }

    fn of(assignment: &Assignment) -> Desired {
        desired(&InstanceId::new("x").unwrap(), assignment)
    }

    #[track_caller]
    fn check_replaces(edit: impl FnOnce(&mut Process), replaces: bool) {
        let (before, after) = (of(&process(|_| ())).hash, of(&process(edit)).hash);
        assert_eq!(before != after, replaces);
    }

    #[test]
    fn what_replaces_a_program() {
        check_replaces(|_| (), false);
        check_replaces(|p| p.command = Some("other".into()), true);
        check_replaces(|p| p.args = vec!["ab".into()], true);
        check_replaces(|p| p.args = vec!["b".into(), "a".into()], true);
        check_replaces(|p| p.args.clear(), true);
        check_replaces(|p| p.working_directory = Some(String::new()), true);
        check_replaces(|p| drop(p.env.insert("A".into(), "3".into())), true);
        check_replaces(|p| drop(p.env.remove("A")), true);
    }

    #[test]
    fn a_restart_that_is_asked_for_replaces_it() {
        let asked = |time: &str| of(&spec(|s| s.restarted_at = Some(time.to_owned()))).hash;
        assert_ne!(asked("1"), of(&process(|_| ())).hash);
        assert_ne!(asked("1"), asked("2"));
        assert_eq!(asked("1"), asked("1"));
    }

    #[test]
    fn how_it_is_treated_does_not_replace_it() {
        let mut other = process(|_| ());
        let spec = other.spec.as_mut().unwrap();
        spec.restart_policy = Some("never".into());
        spec.stop_signal = Some("SIGINT".into());
        spec.stop_grace_seconds = Some(3);
        let (one, two) = (of(&process(|_| ())), of(&other));
        assert_eq!(one.hash, two.hash);
        assert_eq!((one.restart, two.restart), (RestartPolicy::Always, RestartPolicy::Never));
        assert_eq!((one.stop_signal, two.stop_signal), (StopSignal::Term, StopSignal::Int));
        assert_eq!((one.grace.as_secs(), two.grace.as_secs()), (10, 3));
    }

    #[track_caller]
    fn check_blocked(assignment: &Assignment, expect: Option<&str>) {
        let blocked = of(assignment).blocked;
        match (&blocked, expect) {
            (None, None) => (),
            (Some(message), Some(part)) => assert!(message.contains(part), "{message}"),
            (Some(_), None) | (None, Some(_)) => panic!("{blocked:?}, expected {expect:?}"),
        }
    }

    fn spec(edit: impl FnOnce(&mut WorkloadInstanceSpec)) -> Assignment {
        let mut assignment = process(|_| ());
        edit(assignment.spec.as_mut().unwrap());
        assignment
    }

    #[test]
    fn what_this_agent_cannot_run_says_why() {
        check_blocked(&process(|_| ()), None);
        check_blocked(&spec(|s| s.runtime = None), Some("no runtime"));
        check_blocked(&spec(|s| s.restart_policy = Some("maybe".into())), Some("\"maybe\""));
        check_blocked(&spec(|s| s.stop_signal = Some("SIGSTOP".into())), Some("\"SIGSTOP\""));
        check_blocked(&process(|p| p.args.push("a\0b".into())), Some("zero byte"));
        check_blocked(&process(|p| drop(p.env.insert("A=B".into(), "".into()))), Some("\"A=B\""));
        check_blocked(&Assignment::default(), Some("no runtime"));
        let needs = |condition: &str| {
            let condition = Some(condition.to_owned());
            let dependency = Dependency { workload: Some("db".into()), condition };
            spec(|s| s.depends_on = vec![dependency])
        };
        check_blocked(&needs("failed"), None);
        check_blocked(&needs("bored"), Some("\"bored\""));
    }

    #[test]
    fn a_negative_grace_is_none() {
        assert_eq!(of(&spec(|s| s.stop_grace_seconds = Some(-1))).grace, Duration::ZERO);
    }
}

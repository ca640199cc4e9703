//! What a program is started with.
use super::super::{RuntimeError, StartRequest};
use super::NodeNames;
use super::record::{GroupLimits, Launch, Limits};
use crate::users::{self, User};
use orrery_proto::apps::v1::{
    Process, ProcessLimits, WorkloadInstanceSpec, workload_instance_spec::Runtime,
};
use std::collections::BTreeMap;

/// Where programs are looked for when the agent itself was started without a PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a program gets from the agent's own environment. Nothing else: the rest may hold secrets.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

/// Tells the processes of an instance from all others, even when their supervisor is gone.
pub(super) const INSTANCE: &str = "ORRERY_INSTANCE";

/// Likewise for one run.
pub(super) const RUN: &str = "ORRERY_RUN";

/// The node and the data folder of the agent that started it.
pub(super) const NODE: &str = "ORRERY_NODE";
pub(super) const AGENT: &str = "ORRERY_AGENT";

/// Everything the supervisor has to know about this run.
pub(super) fn launch(request: &StartRequest, names: &NodeNames) -> Result<Launch, RuntimeError> {
    let Some(Runtime::Process(process)) = &request.spec.runtime else {
        return Err(RuntimeError::Unsupported);
    };
    let run = uuid::Uuid::new_v4().to_string();
    let mut env = inherited(|name| std::env::var(name).ok());
    if let Some(user) = process.user.as_deref().and_then(|user| users::find(user).ok()) {
        env.extend(of_user(user));
    }
    env.extend(process.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    // Ours come last: by these names the agent finds its processes again.
    env.extend(
        own(request, &names.node, &run).map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    env.insert(AGENT.to_owned(), names.data_dir.to_string_lossy().into_owned());
    if !names.server.is_empty() {
        env.insert("ORRERY_SERVER".to_owned(), names.server.clone());
    }
    if let Some(folder) = &request.files {
        env.insert("ORRERY_FILES".to_owned(), folder.to_string_lossy().into_owned());
    }
    let base = Launch::new(run, request.hash.clone(), request.history, request.stop);
    Ok(Launch {
        command: process.command.clone().unwrap_or_default(),
        args: process.args.clone(),
        env,
        working_directory: process.working_directory.clone(),
        user: process.user.clone(),
        limits: limits(process),
        group: group_limits(&request.spec),
        volumes: request.volumes.clone(),
        ..base
    })
}

fn limits(process: &Process) -> Limits {
    let amount = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let bytes = |mib: Option<i64>| amount(mib).map(|mib| mib.saturating_mul(1 << 20));
    let asked: ProcessLimits = process.limits.unwrap_or_default();
    Limits {
        open_files: amount(asked.open_files),
        processes: amount(asked.processes),
        core_bytes: bytes(asked.core_mib),
        address_space_bytes: bytes(asked.address_space_mib),
        stack_bytes: bytes(asked.stack_mib),
    }
}

fn group_limits(spec: &WorkloadInstanceSpec) -> GroupLimits {
    let amount = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let asked = spec.resources.as_ref().and_then(|resources| resources.limits).unwrap_or_default();
    GroupLimits {
        cpu_millis: amount(asked.cpu_millis),
        memory_bytes: amount(asked.memory_mib).map(|mib| mib.saturating_mul(1 << 20)),
        processes: amount(asked.processes),
    }
}

fn inherited(of_agent: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), of_agent(name)?))).collect();
    env.entry("PATH".to_owned()).or_insert_with(|| PATH_DEFAULT.to_owned());
    env
}

/// Another user has a home and a name of its own. Who cannot be found here is told when it starts.
fn of_user(user: User) -> impl Iterator<Item = (String, String)> {
    let home = user.home.map(|home| ("HOME", home));
    let names = user.name.map(|name| [("USER", name.clone()), ("LOGNAME", name)]);
    let all = home.into_iter().chain(names.into_iter().flatten());
    all.map(|(name, value)| (name.to_owned(), value))
}

fn own<'a>(request: &'a StartRequest, node: &'a str, run: &'a str) -> [(&'static str, &'a str); 5] {
    [
        ("ORRERY_PROJECT", &request.project),
        ("ORRERY_WORKLOAD", request.spec.workload.as_deref().unwrap_or_default()),
        (INSTANCE, request.id.as_str()),
        (NODE, node),
        (RUN, run),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{History, InstanceId, SpecHash, StopSignal};
    use crate::runtime::StopRequest;
    use orrery_proto::apps::v1::{Process, WorkloadInstanceSpec};
    use std::time::Duration;

    fn request(env: &[(&str, &str)]) -> StartRequest {
        let process = Process {
            command: Some("serve".into()),
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            ..Process::default()
        };
        StartRequest {
            id: InstanceId::new("i-1").unwrap(),
            project: "shop".into(),
            spec: WorkloadInstanceSpec {
                workload: Some("web".into()),
                runtime: Some(Runtime::Process(process)),
                ..WorkloadInstanceSpec::default()
            },
            hash: SpecHash("h".into()),
            history: History::default(),
            stop: StopRequest { signal: StopSignal::Term, grace: Duration::from_secs(1) },
            files: None,
            volumes: Vec::new(),
        }
    }

    fn names(node: &str) -> NodeNames {
        let data_dir = "/var/lib/orrery".into();
        NodeNames { node: node.into(), server: "http://127.0.0.1:7443".into(), data_dir }
    }

    #[test]
    fn limits_are_bytes_where_they_are_memory() {
        let mut request = request(&[]);
        let Some(Runtime::Process(process)) = &mut request.spec.runtime else {
            panic!("a process")
        };
        process.limits = Some(ProcessLimits { stack_mib: Some(8), ..ProcessLimits::default() });
        let launch = launch(&request, &names("n")).unwrap();
        assert_eq!(launch.limits, Limits { stack_bytes: Some(8 << 20), ..Limits::default() });
        assert!(launch.needs_stage());
    }

    #[test]
    fn the_program_knows_who_it_is_and_cannot_pretend() {
        let env =
            launch(&request(&[("A", "b"), ("ORRERY_NODE", "lie")]), &names("edge-1")).unwrap().env;
        let expect = [
            ("A", "b"),
            ("ORRERY_PROJECT", "shop"),
            ("ORRERY_WORKLOAD", "web"),
            ("ORRERY_INSTANCE", "i-1"),
            ("ORRERY_NODE", "edge-1"),
            ("ORRERY_AGENT", "/var/lib/orrery"),
            ("ORRERY_SERVER", "http://127.0.0.1:7443"),
        ];
        for (name, value) in expect {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(env.contains_key("ORRERY_RUN"));
    }

    #[test]
    fn another_user_has_its_own_home_unless_somebody_says_otherwise() {
        let mut request = request(&[("LOGNAME", "mine")]);
        let Some(Runtime::Process(process)) = &mut request.spec.runtime else {
            panic!("a process")
        };
        process.user = Some("root".into());
        let env = launch(&request, &names("n")).unwrap().env;
        let of = |name: &str| env.get(name).map(String::as_str);
        assert_eq!((of("HOME"), of("USER")), (Some("/root"), Some("root")));
        assert_eq!(of("LOGNAME"), Some("mine"));
    }

    #[test]
    fn only_a_few_variables_of_the_agent_are_handed_on() {
        let env = inherited(|name| Some(format!("the agent's {name}")));
        let names: Vec<&str> = env.keys().map(String::as_str).collect();
        assert_eq!(names, ["HOME", "LANG", "PATH", "TZ"]);
        assert_eq!(inherited(|_| None), BTreeMap::from([("PATH".into(), PATH_DEFAULT.into())]));
    }

    #[test]
    fn a_spec_without_a_process_is_not_for_this_runtime() {
        let mut request = request(&[]);
        request.spec.runtime = None;
        assert!(matches!(launch(&request, &names("n")), Err(RuntimeError::Unsupported)));
    }
}

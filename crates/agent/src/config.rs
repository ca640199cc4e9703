//! What the agent is told at its start, and what it tells the server about itself.
use crate::plan::Timing;
use crate::runtime::PROCESS;
use crate::volumes::HostVolumes;
use orrery_proto::fleet::v1::AgentHello;
use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc};

/// Everything an agent has to know.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of the node.
    pub name: String,
    /// Folder with everything the agent keeps; made when absent. One agent at a time uses it.
    pub data_dir: PathBuf,
    /// How a supervisor is started.
    pub supervisor: SupervisorCommand,
    /// What happens to the workloads when the agent is asked to stop.
    pub on_stop: OnStop,
    /// How long the agent waits between attempts; the default is meant for use.
    pub timing: Timing,
    /// Different for each start of the agent; tells a reconnection from a restart.
    pub instance_id: String,
    /// Labels for the node.
    pub labels: BTreeMap<String, String>,
    /// What mounts volumes on this host; without it, workloads with volumes do not run here.
    pub volumes: Option<Arc<dyn HostVolumes>>,
    /// Address under which others reach what runs here; where the connection comes from when absent.
    pub address: Option<std::net::IpAddr>,
}

impl AgentConfig {
    /// An agent that leaves its workloads running when it stops.
    pub fn new(
        name: impl Into<String>,
        data_dir: impl Into<PathBuf>,
        supervisor: SupervisorCommand,
    ) -> Self {
        Self {
            name: name.into(),
            data_dir: data_dir.into(),
            supervisor,
            on_stop: OnStop::LeaveRunning,
            timing: Timing::default(),
            instance_id: uuid::Uuid::new_v4().to_string(),
            labels: BTreeMap::new(),
            volumes: None,
            address: None,
        }
    }
}

/// The command that starts [`crate::supervisor::main`]. The folder of the instance is added as the
/// last argument, and the environment is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorCommand {
    /// Usually this very binary.
    pub program: PathBuf,
    /// Usually the name of a hidden subcommand.
    pub args: Vec<OsString>,
}

/// What happens to the workloads when the agent is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// All are stopped, each within its grace, and started again by the next agent.
    StopWorkloads,
    /// Their supervisors go on, and the next agent adopts them.
    LeaveRunning,
}

/// The first message of each connection.
pub fn hello(config: &AgentConfig) -> AgentHello {
    AgentHello {
        name: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        runtimes: vec![PROCESS.to_owned()],
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        system: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        instance_id: config.instance_id.clone(),
        labels: config.labels.clone().into_iter().collect(),
        address: config.address.map(|address| address.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: AGT-05, AGT-06
    #[test]
    fn hello_says_who_and_which_version() {
        let command = SupervisorCommand { program: "orrery".into(), args: Vec::new() };
        let mut config = AgentConfig::new("edge-1", "data", command);
        config.labels.insert("zone".into(), "a".into());
        let hello = hello(&config);
        assert_eq!(hello.name, "edge-1");
        assert_eq!(hello.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(hello.runtimes, ["process"]);
        assert_eq!(hello.labels["zone"], "a");
        assert!(hello.system.starts_with("linux/"), "{}", hello.system);
        assert!(!hello.hostname.is_empty());
        assert_eq!(hello.instance_id, config.instance_id);
    }

    #[test]
    fn each_start_has_an_instance_id_of_its_own() {
        let command = SupervisorCommand { program: "orrery".into(), args: Vec::new() };
        let [one, two] = [(), ()].map(|()| AgentConfig::new("n", "d", command.clone()).instance_id);
        assert_ne!(one, two);
    }
}

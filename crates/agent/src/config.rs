//! What the agent is told at its start, and what it tells the server about itself.
use crate::load;
use crate::plan::Timing;
use crate::runtime::{PODMAN, PROCESS};
use crate::volumes::HostVolumes;
use orrery_proto::fleet::v1::AgentHello;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

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
    /// The id of the data folder ([`agent_id`](crate::agent_id)); empty says nothing of it.
    pub agent_id: String,
    /// Labels for the node.
    pub labels: BTreeMap<String, String>,
    /// Folder for what need not outlive the machine's next start: files of instances, sockets. In
    /// memory where the system has such a folder, because secrets are in it.
    pub run_dir: PathBuf,
    /// How podman is reached.
    pub podman: PodmanConfig,
    /// What mounts volumes on this host; without it, workloads with volumes do not run here.
    pub volumes: Option<Arc<dyn HostVolumes>>,
    /// Address under which others reach what runs here; where the connection comes from when absent.
    pub address: Option<std::net::IpAddr>,
    /// Where its server is, as a URL; programs are told in ORRERY_SERVER. Empty says nothing.
    pub server: String,
}

impl AgentConfig {
    /// An agent that leaves its workloads running when it stops.
    pub fn new(
        name: impl Into<String>,
        data_dir: impl Into<PathBuf>,
        supervisor: SupervisorCommand,
    ) -> Self {
        let data_dir = data_dir.into();
        Self {
            name: name.into(),
            run_dir: run_dir(&data_dir),
            data_dir,
            podman: PodmanConfig::default(),
            supervisor,
            on_stop: OnStop::LeaveRunning,
            timing: Timing::default(),
            instance_id: uuid::Uuid::new_v4().to_string(),
            agent_id: String::new(),
            labels: BTreeMap::new(),
            volumes: None,
            address: None,
            server: String::new(),
        }
    }
}

/// How podman is reached.
#[derive(Clone, Debug)]
pub struct PodmanConfig {
    /// A path, or a name that is found along PATH.
    pub program: PathBuf,
    /// The socket of podman's service; the system's own when absent. Where nobody answers, the agent
    /// starts a service itself.
    pub socket: Option<PathBuf>,
    /// Environment variables for a service that the agent starts.
    pub env: BTreeMap<String, String>,
}

impl Default for PodmanConfig {
    fn default() -> Self {
        Self { program: PODMAN.into(), socket: None, env: BTreeMap::new() }
    }
}

impl PodmanConfig {
    /// The sockets at which a service may be listening already.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        match &self.socket {
            Some(socket) => vec![socket.clone()],
            None => {
                runtime_folder().into_iter().map(|dir| dir.join("podman/podman.sock")).collect()
            }
        }
    }

    /// Whether this node has podman.
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path);
        // With a slash it is a path of its own: joining it to a folder leaves it what it is.
        let program = self.program.is_absolute() && self.program.exists();
        program
            || folders.any(|folder| folder.join(&self.program).is_file())
            || self.sockets().iter().any(|socket| socket.exists())
    }
}

/// The folder that the system has for files that live as long as it runs.
fn runtime_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/run"));
    }
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// One folder for each data folder, with a short name: the path of a socket has 107 characters.
fn run_dir(data_dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let digest = Sha256::digest(absolute.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    match runtime_folder().filter(|folder| folder.is_dir()) {
        Some(folder) => folder.join("orrery").join(name),
        None => data_dir.join("run"),
    }
}

/// The command that starts [`crate::supervisor::main`]. The folder of the instance is added as the
/// last argument, and the environment holds nothing but whose run it looks after.
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
        runtimes: runtimes(config),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        system: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        instance_id: config.instance_id.clone(),
        agent_id: config.agent_id.clone(),
        labels: config.labels.clone().into_iter().collect(),
        allocatable: load::allocatable(),
        address: config.address.map(|address| address.to_string()).unwrap_or_default(),
    }
}

fn runtimes(config: &AgentConfig) -> Vec<String> {
    let podman = config.podman.is_there().then(|| PODMAN.to_owned());
    [PROCESS.to_owned()].into_iter().chain(podman).collect()
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
        assert_eq!(hello.runtimes[0], "process");
        assert!(hello.allocatable.is_some_and(|node| 0 < node.cpu_millis && 0 < node.memory_mib));
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

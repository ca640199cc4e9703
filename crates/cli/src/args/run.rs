//! Commands that run for as long as they are let.
use super::{IdentityArguments, Joining, OperationsArguments, ServerMesh, Tls};
use clap::Args;
use orrery_server::Listen;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct UpArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7443", value_parser = super::values::listen)]
    pub listen: SocketAddr,
    /// Address to listen on for machine drivers, or off [default: port 5000 of the host of --listen]
    #[arg(long, value_name = "ADDRESS|off")]
    pub drivers_listen: Option<Listen>,
    /// Folder that holds everything [default: ~/.local/share/orrery]
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// Name of the agent beside the server
    #[arg(long, default_value = "local")]
    pub name: String,
    #[command(flatten)]
    pub identity: IdentityArguments,
    #[command(flatten)]
    pub operations: OperationsArguments,
}

#[derive(Debug, Args)]
pub struct ServerArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7443", value_parser = super::values::listen)]
    pub listen: SocketAddr,
    /// Address to listen on for machine drivers, or off [default: port 5000 of the host of --listen]
    #[arg(long, value_name = "ADDRESS|off")]
    pub drivers_listen: Option<Listen>,
    /// Folder that holds everything [default: ~/.local/share/orrery]
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArguments,
    /// Address at which other servers reach this one [default: the one that it listens on]
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
    #[command(flatten)]
    pub operations: OperationsArguments,
    #[command(flatten)]
    pub storage: StorageArguments,
    /// Take plain connections from other machines too; only for networks that are safe
    #[arg(long)]
    pub allow_plain: bool,
    /// Ending of the API groups, such as apps.SUFFIX
    #[arg(long, default_value = orrery_api::DEFAULT_GROUP_SUFFIX, value_name = "SUFFIX")]
    pub group_suffix: String,
    #[command(flatten)]
    pub mesh: ServerMesh,
    #[command(flatten)]
    pub tls: Tls,
    #[command(flatten)]
    pub identity: IdentityArguments,
}

/// Where a server takes in storage controllers.
#[derive(Debug, Default, Args)]
pub struct StorageArguments {
    /// Address of the storage registry, or "off" [default: port 8999 on the host of --listen]
    #[arg(long, value_name = "ADDRESS|off")]
    pub storage_listen: Option<Listen>,
}

/// `orrery storage-controller`.
#[derive(Debug, Args)]
pub struct StorageControllerArguments {
    #[command(flatten)]
    pub options: orrery_storage_node::run::ControllerOptions,
    #[command(flatten)]
    pub tls: Tls,
    #[command(flatten)]
    pub joining: Joining,
}

/// `orrery csi`.
#[derive(Debug, Args)]
pub struct CsiArguments {
    #[command(flatten)]
    pub options: orrery_storage_node::run::CsiOptions,
    #[command(flatten)]
    pub tls: Tls,
    #[command(flatten)]
    pub joining: Joining,
}

/// Where a server keeps everything.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArguments {
    /// etcd to use instead of the embedded store: etcd://HOST:PORT[,HOST:PORT][/ROOT]
    #[arg(long, env = "ORRERY_STORE", value_name = "URL")]
    pub store: Option<String>,
    /// PEM file of the authority that signed etcd's certificates
    #[arg(long, value_name = "FILE", requires = "store")]
    pub etcd_root: Option<PathBuf>,
    /// PEM file of the certificate to show etcd
    #[arg(long, value_name = "FILE", requires = "etcd_root", requires = "etcd_key")]
    pub etcd_certificate: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    pub etcd_key: Option<PathBuf>,
    /// Name to log in to etcd with
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub etcd_user: Option<String>,
    /// File that holds the password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub etcd_password_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Name of this agent; a Node of this name appears
    #[arg(long, value_parser = node_name)]
    pub name: String,
    /// Server to connect to: http://HOST:PORT or https://HOST:PORT
    #[arg(
        long,
        env = "ORRERY_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7443"
    )]
    pub server: String,
    /// Folder that holds what the agent knows [default: ~/.local/share/orrery/agents/NAME]
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Label for its node: KEY=VALUE; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Address under which others reach what runs here [default: where its connection comes from]
    #[arg(long, value_name = "IP")]
    pub address: Option<std::net::IpAddr>,
    /// Stop all workloads when the agent stops, instead of leaving them running
    #[arg(long)]
    pub stop_workloads: bool,
    /// Socket of podman's service [default: the system's own, or a service that the agent starts]
    #[arg(long, env = "ORRERY_PODMAN_SOCKET", value_name = "PATH")]
    pub podman_socket: Option<PathBuf>,
    /// Join token: the agent gets a certificate of its own with it, and keeps it in its folder
    #[arg(long, env = "ORRERY_JOIN_TOKEN", hide_env_values = true, conflicts_with = "certificate")]
    pub token: Option<String>,
    #[command(flatten)]
    pub tls: Tls,
}

fn node_name(text: &str) -> Result<String, String> {
    if !orrery_api::is_name(text) {
        let rule =
            "up to 63 lower-case letters, digits and dashes, with a letter or digit at both ends";
        return Err(format!("a node's name is {rule}"));
    }
    Ok(text.to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    orrery_api::LabelSelector::parse(text).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent that no server takes in would try for ever.
    #[test]
    fn an_agent_has_a_name_that_a_node_can_have() {
        assert_eq!(node_name("edge-1").as_deref(), Ok("edge-1"));
        for bad in ["", "Bad Name", "-a", "a_b", "a.b", &"x".repeat(64)] {
            assert!(node_name(bad).is_err(), "{bad:?}");
        }
    }
}

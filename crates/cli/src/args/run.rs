//! Commands that run for as long as they are let.
use super::Tls;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct UpArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7443")]
    pub listen: SocketAddr,
    /// Folder that holds everything [default: ~/.local/share/orrery]
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Name of the agent beside the server
    #[arg(long, default_value = "local")]
    pub name: String,
}

#[derive(Debug, Args)]
pub struct ServerArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7443")]
    pub listen: SocketAddr,
    /// Folder that holds everything [default: ~/.local/share/orrery]
    #[arg(long, env = "ORRERY_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Take plain connections from other machines too; only for networks that are safe
    #[arg(long)]
    pub allow_plain: bool,
    /// Ending of the API groups, such as apps.SUFFIX
    #[arg(long, default_value = orrery_api::DEFAULT_GROUP_SUFFIX, value_name = "SUFFIX")]
    pub group_suffix: String,
    #[command(flatten)]
    pub tls: Tls,
}

#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Name of this agent; a Node of this name appears
    #[arg(long)]
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
    /// Stop all workloads when the agent stops, instead of leaving them running
    #[arg(long)]
    pub stop_workloads: bool,
    #[command(flatten)]
    pub tls: Tls,
}

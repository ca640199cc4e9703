//! The commands that run machine drivers.
use super::{Joining, Tls, examples};
use clap::{Args, Subcommand};
use std::net::Ipv4Addr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DriverArguments {
    #[command(subcommand)]
    pub driver: DriverCommand,
}

#[derive(Debug, Subcommand)]
pub enum DriverCommand {
    /// Machines that are process trees on this machine, each with an address of its own
    #[command(after_help = examples::DRIVER_PROCESS)]
    Process(ProcessDriver),
    /// Virtual machines on this machine, with KVM or without
    #[command(after_help = examples::DRIVER_QEMU)]
    Qemu(QemuDriver),
    /// Machines at EC2, or at a cloud that speaks its API
    #[command(after_help = examples::DRIVER_AWS)]
    Aws(AwsDriver),
}

/// What all drivers are told.
#[derive(Debug, Args)]
pub struct DriverConnection {
    /// Where the server listens for drivers: HOST:PORT
    #[arg(
        long,
        env = "ORRERY_DRIVERS_SERVER",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5000"
    )]
    pub server: String,
    /// What this driver calls itself, for people [default: its kind]
    #[arg(long)]
    pub name: Option<String>,
    /// Operations at once
    #[arg(long, value_name = "NUMBER", default_value_t = orrery_driver::MAX_CONCURRENT_DEFAULT)]
    pub max_concurrent: usize,
    #[command(flatten)]
    pub tls: Tls,
    #[command(flatten)]
    pub joining: Joining,
}

/// Where the machines' agents join.
#[derive(Debug, Args)]
pub struct AgentServer {
    /// Server that the machines' agents connect to: http://HOST:PORT or https://HOST:PORT
    #[arg(
        long,
        env = "ORRERY_SERVER",
        value_name = "URL",
        default_value = orrery_client::context::DEFAULT_SERVER
    )]
    pub agent_server: String,
}

#[derive(Debug, Args)]
pub struct ProcessDriver {
    #[command(flatten)]
    pub connection: DriverConnection,
    #[command(flatten)]
    pub agents: AgentServer,
    /// Folder of the machines [default: ~/.local/share/orrery/machines/process]
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// The /24 network of the machines; its .1 is this machine
    #[arg(long, value_name = "ADDRESS", default_value = "10.213.77.0")]
    pub subnet: Ipv4Addr,
}

#[derive(Debug, Args)]
pub struct QemuDriver {
    #[command(flatten)]
    pub connection: DriverConnection,
    #[command(flatten)]
    pub agents: AgentServer,
    /// Folder of the machines [default: ~/.local/share/orrery/machines/qemu]
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AwsDriver {
    #[command(flatten)]
    pub connection: DriverConnection,
    /// Name of this installation among those that share an account; machines are tagged with it
    #[arg(long, value_name = "NAME", default_value = "orrery")]
    pub owner: String,
    /// Endpoint to use for every region, instead of Amazon's
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL_EC2")]
    pub endpoint: Option<String>,
}

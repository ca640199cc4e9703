//! What operators decide about a server.
use super::{Connection, UpstreamArguments};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct OperationsArguments {
    /// File of the keys that secrets are sealed with; made when the store is new. The keys can stand
    /// in ORRERY_ENCRYPTION_KEY instead [default: encryption.key in the data folder, unless on etcd]
    #[arg(long, env = "ORRERY_ENCRYPTION_KEY_FILE", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// File to write down in who asks for what: a JSON object in each line
    #[arg(long, env = "ORRERY_AUDIT_LOG", value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Size at which the audit log is set aside, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub audit_max_size: u64,
    /// Audit logs that are kept beside the one that is written
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub audit_keep: u16,
    /// Seconds after which a machine at a provider goes that carries our tag and that nobody here
    /// knows; never while frozen
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    #[arg(value_parser = clap::value_parser!(u64).range(60..=31_536_000))]
    pub orphan_grace: u64,
    /// Take git repositories of this machine, too (file:///PATH): whoever may write a GitSync can then
    /// read and change those that the server can
    #[arg(long)]
    pub git_allow_local: bool,
    #[command(flatten)]
    pub upstreams: UpstreamArguments,
    #[command(flatten)]
    pub limits: LimitArguments,
}

/// What peers may ask for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArguments {
    /// Connections at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_connections: u32,
    /// Connections of one address, or of one identity
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_connections_per_peer: u32,
    /// Requests that are worked on at once; when half of that is reached, nobody gets more than a
    /// fair share
    #[arg(long, value_name = "COUNT", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_requests: u32,
    /// Requests of one peer that are worked on at once
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_requests_per_peer: u32,
    /// Open watches of one peer
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub limit_watches_per_peer: u32,
    /// Requests of one peer in a second; 0 for no limit [default: 5000, and none for plain
    /// connections from this machine]
    #[arg(long, value_name = "COUNT")]
    pub limit_rate: Option<u32>,
}

#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(subcommand)]
    pub command: TopCommand,
}

/// What to look at. Whatever else has load figures becomes a command of its own here.
#[derive(Debug, Subcommand)]
pub enum TopCommand {
    /// Show how busy the server is
    Server {
        /// Seconds to look for
        #[arg(long, value_name = "SECONDS", default_value_t = 1)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
        interval: u64,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show what the nodes use at the moment
    #[command(alias = "node")]
    Nodes {
        #[command(flatten)]
        connection: Connection,
    },
    /// Show what the copies of workloads use at the moment
    #[command(alias = "workload")]
    Workloads {
        /// Project to look in [default: the context's, else default]
        #[arg(short, long, conflicts_with = "all_projects", add = crate::complete::projects())]
        project: Option<String>,
        /// Look in all projects
        #[arg(short = 'A', long)]
        all_projects: bool,
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Debug, Args)]
pub struct SecretsArguments {
    #[command(subcommand)]
    pub command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Seal everything secret with another key, while everything goes on
    RotateKey {
        /// Id of a key that every server holds already, instead of a new one
        #[arg(long = "to-key", value_name = "ID")]
        to_key: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Show what is sealed with which key
    Status {
        #[command(flatten)]
        connection: Connection,
    },
}

//! What can be typed.
use clap::{Args, Parser, Subcommand, ValueEnum};
use orrery_pki::TlsFiles;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The infrastructure control plane: declare what should exist, and the world follows.
#[derive(Debug, Parser)]
#[command(name = "orrery", version, propagate_version = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Args)]
pub struct Global {
    /// Context to use, from the contexts file
    #[arg(long, global = true, env = "ORRERY_CONTEXT")]
    pub context: Option<String>,
    /// Contexts file [default: ~/.config/orrery/config.yaml]
    #[arg(long, global = true, env = "ORRERY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to log, and how much: error, warn, info, debug, trace, or a filter
    #[arg(long, global = true, env = "ORRERY_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the control plane and one agent on this machine
    #[command(after_help = "Example:\n  orrery up\n  orrery apply -f examples/hello.yaml")]
    Up(UpArguments),
    /// Run the control plane
    #[command(after_help = "Example:\n  orrery server --data-dir /var/lib/orrery")]
    Server(ServerArguments),
    /// Run an agent: the part that runs workloads on a machine
    #[command(after_help = "Example:\n  orrery agent --name edge-1 --server http://127.0.0.1:7443")]
    Agent(AgentArguments),
    /// Create or change resources from files
    #[command(
        after_help = "Examples:\n  orrery apply -f hello.yaml\n  cat hello.yaml | orrery apply -f -"
    )]
    Apply(ApplyArguments),
    /// Show resources
    #[command(
        after_help = "Examples:\n  orrery get workloads -p demo\n  orrery get workloads -A --watch\n  orrery get workload hello -p demo -o yaml"
    )]
    Get(GetArguments),
    /// Delete resources, by name or as they stand in files
    #[command(
        after_help = "Examples:\n  orrery delete workload hello -p demo\n  orrery delete -f hello.yaml"
    )]
    Delete(DeleteArguments),
    /// Show what a workload has written
    #[command(
        after_help = "Examples:\n  orrery logs hello -p hello\n  orrery logs -f --tail 20 hello -p hello"
    )]
    Logs(LogsArguments),
    /// Show the versions of this client and of the server
    Version(VersionArguments),
}

/// How to reach a server.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    /// Server to talk to, instead of the context's: http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "ORRERY_SERVER", value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub tls: Tls,
}

/// PEM files: all three, or none.
#[derive(Clone, Debug, Default, Args)]
pub struct Tls {
    /// PEM file of the root certificate that peers are checked against
    #[arg(long, value_name = "FILE", env = "ORRERY_ROOT")]
    pub root: Option<PathBuf>,
    /// PEM file of the own certificate
    #[arg(long, value_name = "FILE", env = "ORRERY_CERTIFICATE")]
    pub certificate: Option<PathBuf>,
    /// PEM file of the own key
    #[arg(long, value_name = "FILE", env = "ORRERY_KEY")]
    pub key: Option<PathBuf>,
}

impl Tls {
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            root: self.root.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

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
    /// Label for its node: KEY=VALUE; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Stop all workloads when the agent stops, instead of leaving them running
    #[arg(long)]
    pub stop_workloads: bool,
    #[command(flatten)]
    pub tls: Tls,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    orrery_api::LabelSelector::parse(text).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub struct ApplyArguments {
    /// File to apply, or - for standard input; may be given more than once
    #[arg(short, long = "file", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Project for what names none
    #[arg(short, long)]
    pub project: Option<String>,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Yaml,
    Json,
    Name,
}

#[derive(Debug, Args)]
pub struct GetArguments {
    /// Kind of resource: workloads, workload, wl, ...
    pub kind: String,
    /// Names; all when there is none
    pub names: Vec<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects")]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    /// Only resources with these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// Go on and print every change
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct DeleteArguments {
    /// Kind of resource
    #[arg(required_unless_present = "files", conflicts_with = "files", requires = "names")]
    pub kind: Option<String>,
    /// Names
    pub names: Vec<String>,
    /// File whose resources to delete, or - for standard input
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long)]
    pub project: Option<String>,
    /// Return when deletion is asked for, not when it is done
    #[arg(long)]
    pub no_wait: bool,
    /// What is not there is no error
    #[arg(long)]
    pub ignore_not_found: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of a workload, for all its copies, or of a workload instance
    pub name: String,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long)]
    pub project: Option<String>,
    /// Go on with what is written later
    #[arg(short, long)]
    pub follow: bool,
    /// Begin so many lines before the end [default: with everything that is kept]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    pub tail: Option<i64>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct VersionArguments {
    /// Only this client's; ask no server
    #[arg(long)]
    pub client: bool,
    #[command(flatten)]
    pub connection: Connection,
}

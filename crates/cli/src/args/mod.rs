//! What can be typed.
//!
//! One file per family of commands; each command has one struct with its options. What an option
//! means is said here and nowhere else: help, man pages, completion and the reference are made
//! from it.
mod artifact;
mod connection;
mod driver;
mod examples;
mod identity;
mod manage;
mod mesh;
mod nodes;
mod operations;
mod resources;
mod run;
mod upstreams;
mod values;

pub use artifact::{ArtifactArguments, ArtifactCommand, ArtifactOwner};
pub use connection::{Connection, Tls};
pub use driver::{
    AwsDriver, DriverArguments, DriverCommand, DriverConnection, ProcessDriver, QemuDriver,
};
pub use identity::{
    AuthArguments, AuthCommand, CanI, IdentityArguments, JoinArguments, Joining, PkiArguments,
    PkiCommand, PkiInit, PkiIssue, PkiRotate, TokenArguments, TokenCommand, TokenCreate, WhoAmI,
};
pub use manage::{
    ApiResourcesArguments, BackupArguments, CompletionArguments, ContextArguments, ContextCommand,
    ContextSet, ExplainArguments, KindFormat, KubeconfigArguments, ManArguments,
    ReferenceArguments, RestoreArguments, ShellName, VersionArguments,
};
pub use mesh::{
    BootstrapArguments, BootstrapFormat, MeshArguments, MeshCommand, MeshList, OfPort, ServerMesh,
};
pub use nodes::{DrainArguments, NodesArguments};
pub use operations::{
    LimitArguments, OperationsArguments, SecretsArguments, SecretsCommand, TopArguments, TopCommand,
};
pub use resources::{
    ApplyArguments, Cascade, ChangeArguments, DeleteArguments, DescribeArguments, DiffArguments,
    EditArguments, EventsArguments, ExecArguments, GetArguments, LogsArguments, PatchArguments,
    PatchType, RestartArguments, ScaleArguments, WaitArguments,
};
pub use run::{
    AgentArguments, CsiArguments, ServerArguments, StorageControllerArguments, StoreArguments,
    UpArguments,
};
pub use upstreams::UpstreamArguments;
pub use values::{Aim, Format};

use clap::{Args, Parser, Subcommand, ValueEnum};
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

#[derive(Debug, Default, Args)]
pub struct Global {
    /// Context to use, from the contexts file
    #[arg(long, global = true, env = "ORRERY_CONTEXT", add = crate::complete::contexts())]
    pub context: Option<String>,
    /// Contexts file [default: ~/.config/orrery/config.yaml]
    #[arg(long, global = true, env = "ORRERY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to log, and how much: error, warn, info, debug, trace, or a filter
    #[arg(long, global = true, env = "ORRERY_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// How to log: for people, or a JSON object in each line
    #[arg(long, global = true, env = "ORRERY_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    #[arg(default_value_t)]
    pub log_format: LogFormat,
    /// Collector to send traces to, in OTLP over gRPC: http://HOST:4317
    #[arg(long, global = true, env = "ORRERY_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the control plane and one agent on this machine
    #[command(after_help = examples::UP)]
    Up(Box<UpArguments>),
    /// Run the control plane
    #[command(after_help = examples::SERVER)]
    Server(Box<ServerArguments>),
    /// Run an agent: the part that runs workloads on a machine
    #[command(after_help = examples::AGENT)]
    Agent(AgentArguments),
    /// Run a storage controller: makes volumes appear as block devices on its host
    #[command(after_help = examples::STORAGE_CONTROLLER)]
    StorageController(StorageControllerArguments),
    /// Run a driver of the Container Storage Interface
    #[command(after_help = examples::CSI)]
    Csi(CsiArguments),
    /// Run a machine driver: the part that makes machines at a provider
    #[command(after_help = examples::DRIVER)]
    Driver(DriverArguments),
    /// Create or change resources from files
    #[command(after_help = examples::APPLY)]
    Apply(ApplyArguments),
    /// Show resources
    #[command(after_help = examples::GET, disable_version_flag = true)]
    Get(GetArguments),
    /// Show everything about resources, with their conditions and events
    #[command(after_help = examples::DESCRIBE)]
    Describe(DescribeArguments),
    /// Show what happened, oldest first
    #[command(after_help = examples::EVENTS)]
    Events(EventsArguments),
    /// Show what a workload has written
    #[command(after_help = examples::LOGS)]
    Logs(LogsArguments),
    /// Run a command beside a copy of a workload; exits with the command's code
    #[command(after_help = examples::EXEC)]
    Exec(ExecArguments),
    /// Show what an apply would change; exits with 1 when it would change something
    #[command(after_help = examples::DIFF)]
    Diff(DiffArguments),
    /// Delete resources, by name, by label or as they stand in files
    #[command(after_help = examples::DELETE)]
    Delete(DeleteArguments),
    /// Change a resource in an editor
    #[command(after_help = examples::EDIT)]
    Edit(EditArguments),
    /// Change some fields of a resource
    #[command(after_help = examples::PATCH)]
    Patch(PatchArguments),
    /// Say how many copies there should be
    #[command(after_help = examples::SCALE)]
    Scale(ScaleArguments),
    /// Start the copies of workloads anew, as many at once as their update strategy says
    #[command(after_help = examples::RESTART)]
    Restart(RestartArguments),
    /// Set and remove labels
    #[command(after_help = examples::LABEL)]
    Label(ChangeArguments),
    /// Set and remove annotations
    #[command(after_help = examples::ANNOTATE)]
    Annotate(ChangeArguments),
    /// Keep new copies of workloads away from nodes
    #[command(after_help = examples::CORDON)]
    Cordon(NodesArguments),
    /// Open nodes again
    #[command(after_help = examples::UNCORDON)]
    Uncordon(NodesArguments),
    /// Empty nodes: their copies move to others, as many at once as their workloads can miss
    #[command(after_help = examples::DRAIN)]
    Drain(DrainArguments),
    /// Wait until resources are as they should be
    #[command(after_help = examples::WAIT)]
    Wait(WaitArguments),
    /// Explain a kind and its fields
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArguments),
    /// Show the kinds that the server knows
    #[command(after_help = examples::API_RESOURCES)]
    ApiResources(ApiResourcesArguments),
    /// Show and change the contexts: which servers there are, and how to reach them
    #[command(after_help = examples::CONTEXT)]
    Context(ContextArguments),
    /// Print the script that teaches a shell to complete commands, kinds and names
    #[command(after_help = examples::COMPLETION)]
    Completion(CompletionArguments),
    /// Write manual pages into a folder
    #[command(after_help = examples::MAN)]
    Man(ManArguments),
    /// Write the reference (Markdown, one page per kind) into a folder
    #[command(hide = true)]
    Reference(ReferenceArguments),
    /// Print a kubeconfig, with which kubectl and its like reach the server
    #[command(after_help = examples::KUBECONFIG)]
    Kubeconfig(KubeconfigArguments),
    /// See the service mesh, and start proxies of it
    #[command(after_help = examples::MESH)]
    Mesh(MeshArguments),
    /// Show, read and write the files of resources
    #[command(after_help = examples::ARTIFACT)]
    Artifact(ArtifactArguments),
    /// Save everything that the server keeps to a file, while it runs
    #[command(after_help = examples::BACKUP)]
    Backup(BackupArguments),
    /// Make a new data folder out of a backup
    #[command(after_help = examples::RESTORE)]
    Restore(RestoreArguments),
    /// Make tokens, with which machines join and programs show who they are
    #[command(after_help = examples::TOKEN)]
    Token(TokenArguments),
    /// Get a certificate for a machine of any role with a join token
    #[command(after_help = examples::JOIN)]
    Join(JoinArguments),
    /// Make, show and rotate certificates
    #[command(after_help = examples::PKI)]
    Pki(PkiArguments),
    /// Ask who you are and what you may do
    #[command(after_help = examples::AUTH)]
    Auth(AuthArguments),
    /// Show who uses how much
    #[command(after_help = examples::TOP)]
    Top(TopArguments),
    /// Change the key that secrets are sealed with, and see what is sealed
    #[command(after_help = examples::SECRETS)]
    Secrets(SecretsArguments),
    /// Show the versions of this client and of the server
    #[command(after_help = examples::VERSION)]
    Version(VersionArguments),
}

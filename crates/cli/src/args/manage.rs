//! Commands about the command line and the server themselves.
use super::{Connection, Tls};
use crate::complete;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Kind, and the field behind dots: workload.spec.process
    #[arg(value_name = "KIND[.FIELD...]", add = complete::fields())]
    pub path: String,
    /// Show the fields of fields too
    #[arg(long)]
    pub recursive: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KindFormat {
    #[default]
    Table,
    Wide,
    Name,
}

#[derive(Debug, Args)]
pub struct ApiResourcesArguments {
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub output: KindFormat,
    /// Only kinds of this group, with or without its ending
    #[arg(long, value_name = "GROUP")]
    pub api_group: Option<String>,
    /// Leave out the line that names the columns
    #[arg(long)]
    pub no_headers: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct ContextArguments {
    #[command(subcommand)]
    pub command: ContextCommand,
}

#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// Show all contexts
    List,
    /// Make a context the one that is used
    Use {
        #[arg(add = complete::contexts())]
        name: String,
    },
    /// Show one context, or the one that is used
    Show {
        #[arg(add = complete::contexts())]
        name: Option<String>,
    },
    /// Make a context, or change what is given of one
    Set(ContextSet),
    /// Forget a context
    Delete {
        #[arg(add = complete::contexts())]
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct ContextSet {
    /// Name of the context
    #[arg(add = complete::contexts())]
    pub name: String,
    /// Server: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Project of what is asked for without one
    #[arg(short, long)]
    pub project: Option<String>,
    #[command(flatten)]
    pub tls: Tls,
    /// File of an access token to show instead of a certificate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["certificate", "key"])]
    pub token_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// Shell that the script is for
    #[arg(value_enum)]
    pub shell: ShellName,
}

#[derive(Debug, Args)]
pub struct ManArguments {
    /// Folder to write the pages to; it is made when it is not there
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct ReferenceArguments {
    /// Folder to write the pages to; it is made when it is not there
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct VersionArguments {
    /// Only this client's; ask no server
    #[arg(long)]
    pub client: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct KubeconfigArguments {
    /// Project to look in when none is said [default: the context's, else default]
    #[arg(short, long)]
    pub project: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct BackupArguments {
    /// File to write; it must not be there yet
    pub file: PathBuf,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// Backup to read
    pub file: PathBuf,
    /// Folder for the server to run on afterwards; new or empty
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: PathBuf,
}

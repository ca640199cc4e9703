//! Commands about the files of resources.
use super::Connection;
use crate::complete;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ArtifactArguments {
    #[command(subcommand)]
    pub command: ArtifactCommand,
}

#[derive(Debug, Subcommand)]
pub enum ArtifactCommand {
    /// Show which files a resource has
    List(ArtifactList),
    /// Write the content of a file to this machine
    Get(ArtifactGet),
    /// Write a file of this machine to a resource; one that is there is replaced
    Put(ArtifactPut),
    /// Take files away from a resource
    Delete(ArtifactDelete),
}

/// The resource that has the files.
#[derive(Debug, Args)]
pub struct ArtifactOwner {
    /// Kind and name of the resource: workload/hello
    #[arg(value_name = "KIND/NAME", add = complete::resources())]
    pub owner: String,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct ArtifactList {
    #[command(flatten)]
    pub owner: ArtifactOwner,
    /// Leave out the line that names the columns
    #[arg(long)]
    pub no_headers: bool,
}

#[derive(Debug, Args)]
pub struct ArtifactGet {
    #[command(flatten)]
    pub owner: ArtifactOwner,
    /// Path of the file, as the list shows it
    pub path: String,
    /// File to write, or - for standard output [default: the file's own name, in this folder]
    pub file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ArtifactPut {
    #[command(flatten)]
    pub owner: ArtifactOwner,
    /// File to read, at most 48 MiB, or - for standard input
    pub file: PathBuf,
    /// Path that it gets, with slashes between folders [default: the file's own name]
    pub path: Option<String>,
}

#[derive(Debug, Args)]
pub struct ArtifactDelete {
    #[command(flatten)]
    pub owner: ArtifactOwner,
    /// Paths of the files, as the list shows them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
}

//! Commands about resources.
use super::values::{self, duration};
use super::{Aim, Connection, Format};
use crate::complete;
use crate::output::jsonpath::Path;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct ApplyArguments {
    /// File or folder to apply, or - for standard input; may be given more than once
    #[arg(short, long = "file", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Project for what names none
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take fields that others set, instead of refusing to change them
    #[arg(long)]
    pub force_conflicts: bool,
    /// Take where resources came from (orrery.dev/lineage) from the files, too
    #[arg(long)]
    pub include_lineage: bool,
    /// Delete what carries the labels of --selector, was applied before, and is not in the files
    #[arg(long, requires = "selector")]
    pub prune: bool,
    /// Labels of what may be pruned: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", requires = "prune")]
    pub selector: Option<String>,
    /// Return when everything is ready
    #[arg(long, conflicts_with = "dry_run")]
    pub wait: bool,
    /// How long to wait for everything to be ready: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration, requires = "wait")]
    pub timeout: Duration,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct GetArguments {
    /// Kinds, and names: workloads | workload hello | workload/hello | workloads,nodes | all
    #[arg(required = true, value_name = "KIND [NAME] | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    /// Only resources with these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only resources with these values: status.state=Running,metadata.name!=web
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// How to print: table, wide, yaml, json, name, jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
    /// Sort by the value at this path: .metadata.creationTimestamp
    #[arg(long, value_name = "PATH", conflicts_with = "watch")]
    pub sort_by: Option<Path>,
    /// Show labels as the last column
    #[arg(long)]
    pub show_labels: bool,
    /// Leave out the line that names the columns
    #[arg(long)]
    pub no_headers: bool,
    /// Show who set which fields
    #[arg(long, conflicts_with = "watch")]
    pub show_managed_fields: bool,
    /// Show where resources came from, as git sync writes it down (orrery.dev/lineage)
    #[arg(long)]
    pub include_lineage: bool,
    /// Show which versions there are of one resource, for kinds that keep them
    #[arg(long, conflicts_with_all = ["watch", "version", "sort_by", "show_labels"])]
    pub versions: bool,
    /// Show what one resource was when its version had this name
    #[arg(long, value_name = "VERSION", conflicts_with = "watch")]
    pub version: Option<String>,
    /// Go on and show every change
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct DescribeArguments {
    /// Kinds, and names: workloads | workload hello | workload/hello
    #[arg(required = true, value_name = "KIND [NAME] | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    /// Only resources with these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct EventsArguments {
    /// Only events of this resource: KIND/NAME
    #[arg(long = "for", value_name = "KIND/NAME", add = complete::resources())]
    pub regarding: Option<String>,
    /// Only events of this type: Normal or Warning
    #[arg(long = "type", value_name = "TYPE")]
    pub r#type: Option<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    /// Leave out the line that names the columns
    #[arg(long)]
    pub no_headers: bool,
    /// Go on and show every event
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct DiffArguments {
    /// File or folder to compare, or - for standard input; may be given more than once
    #[arg(short, long = "file", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Project for what names none
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// They follow it
    Background,
    /// They go first, and it waits for them
    Foreground,
    /// They stay
    Orphan,
}

#[derive(Debug, Args)]
pub struct DeleteArguments {
    /// Kinds, and names: workload hello | workload/hello | workloads with --selector or --all
    #[arg(
        required_unless_present = "files",
        conflicts_with = "files",
        value_name = "KIND [NAME] | KIND/NAME",
        add = complete::resources()
    )]
    pub words: Vec<String>,
    /// File or folder whose resources to delete, or - for standard input
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Delete what carries these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["files", "all"])]
    pub selector: Option<String>,
    /// Delete all of the kind
    #[arg(long, conflicts_with = "files")]
    pub all: bool,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long, conflicts_with = "files")]
    pub all_projects: bool,
    /// Return when deletion is asked for, not when it is done
    #[arg(long)]
    pub no_wait: bool,
    /// Return when it is done (this is the default)
    #[arg(long, conflicts_with = "no_wait")]
    pub wait: bool,
    /// How long to wait for all of it to be gone: 90s, 5m, 1h [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub timeout: Option<Duration>,
    /// What becomes of the resources that belong to it [default: they follow in the background]
    #[arg(long, value_enum)]
    pub cascade: Option<Cascade>,
    /// What is not there is no error
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Say what would be deleted, delete nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct EditArguments {
    /// Kind and name: workload hello | workload/hello
    #[arg(required = true, value_name = "KIND NAME | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PatchType {
    /// Fields that are named change, null removes (RFC 7386)
    Merge,
    /// A list of operations (RFC 6902)
    Json,
}

#[derive(Debug, Args)]
pub struct PatchArguments {
    /// Kind and name: workload hello | workload/hello
    #[arg(required = true, value_name = "KIND NAME | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// How the patch is written
    #[arg(long, value_enum, default_value = "merge")]
    pub r#type: PatchType,
    /// The patch, as JSON or YAML
    #[arg(short, long, value_name = "PATCH", required_unless_present = "patch_file")]
    pub patch: Option<String>,
    /// File that holds the patch, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "patch")]
    pub patch_file: Option<PathBuf>,
    /// Project to look in [default: the context's, else default]; -p is the patch here
    #[arg(long, add = complete::projects())]
    pub project: Option<String>,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct ScaleArguments {
    /// Kinds and names: workload web | workload/web machinedeployment/pool
    #[arg(required = true, value_name = "KIND NAME | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// How many copies there should be
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    pub replicas: i32,
    /// Only if so many were asked for until now
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(0..))]
    pub current_replicas: Option<i32>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct RestartArguments {
    /// Workloads: workload web | workload/web workload/api
    #[arg(required = true, value_name = "KIND NAME | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// Restart what carries these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    pub selector: Option<String>,
    /// Restart all of the kind
    #[arg(long)]
    pub all: bool,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// Labels or annotations to set and to remove.
#[derive(Debug, Args)]
pub struct ChangeArguments {
    /// Resources, then changes: workload hello KEY=VALUE KEY-
    #[arg(
        required = true,
        value_name = "KIND NAME | KIND/NAME | KEY=VALUE | KEY-",
        add = complete::resources()
    )]
    pub words: Vec<String>,
    /// Change values that are already there
    #[arg(long)]
    pub overwrite: bool,
    /// Change what carries these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    pub selector: Option<String>,
    /// Change all of the kind
    #[arg(long)]
    pub all: bool,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    /// Check everything on the server, store nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct WaitArguments {
    /// Kinds, and names: workload hello | workload/hello | workloads with --selector or --all
    #[arg(required = true, value_name = "KIND [NAME] | KIND/NAME", add = complete::resources())]
    pub words: Vec<String>,
    /// What to wait for: condition=TYPE[=STATUS], delete, create, jsonpath=PATH[=VALUE]
    #[arg(long = "for", value_name = "WHAT")]
    pub aim: Aim,
    /// How long to wait: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
    /// Wait for what carries these labels: app=web,tier!=test
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    pub selector: Option<String>,
    /// Wait for all of the kind
    #[arg(long)]
    pub all: bool,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    /// Name of a workload or of a workload instance, or both: WORKLOAD/INSTANCE
    #[arg(value_name = "WORKLOAD[/INSTANCE]")]
    pub name: String,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// Hand what is typed to the command
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command a terminal
    #[arg(short = 't', long)]
    pub tty: bool,
    #[command(flatten)]
    pub connection: Connection,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LogsArguments {
    /// Name of a workload, for all its copies, or of a workload instance, or both: WORKLOAD/INSTANCE
    #[arg(value_name = "WORKLOAD[/INSTANCE]")]
    pub name: String,
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// Go on with what is written later
    #[arg(short, long)]
    pub follow: bool,
    /// Begin so many lines before the end [default: with everything that is kept]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    pub tail: Option<i64>,
    /// Begin with what was written within this time: 90s, 5m, 1h30m, 7d
    #[arg(long, value_name = "TIME", value_parser = values::some_time, conflicts_with = "since_time")]
    pub since: Option<Duration>,
    /// Begin with what was written at this time or later, in RFC 3339: 2026-11-19T12:00:00Z
    #[arg(long, value_name = "RFC3339", value_parser = values::moment)]
    pub since_time: Option<Timestamp>,
    /// Show when each line was written
    #[arg(long)]
    pub timestamps: bool,
    #[command(flatten)]
    pub connection: Connection,
}

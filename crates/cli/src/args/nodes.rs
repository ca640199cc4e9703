//! Commands about nodes.
use super::Connection;
use super::values::duration;
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct NodesArguments {
    /// Names of nodes
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct DrainArguments {
    /// Names of nodes
    #[arg(required = true, value_name = "NODE")]
    pub nodes: Vec<String>,
    /// Return when it is asked for, not when they are empty
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait for them to be empty: 90s, 5m, 1h [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "no_wait")]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub connection: Connection,
}

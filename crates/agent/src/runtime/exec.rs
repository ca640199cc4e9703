//! Commands that are run beside a run, with somebody at the other end.
use super::RuntimeError;
use futures::stream::BoxStream;
use orrery_proto::fleet::v1::TerminalSize;
use std::{io, pin::Pin};
use tokio::io::AsyncWrite;

/// What is to be run.
#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether somebody types.
    pub stdin: bool,
    /// The terminal that it has, if it has one.
    pub tty: Option<TerminalSize>,
}

/// A piece of what a command wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// A command that was begun.
pub struct Executing {
    /// Where what is typed goes; dropping it is the end of the input.
    pub input: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// What it writes, until it has no more to write.
    pub output: BoxStream<'static, io::Result<Written>>,
    pub control: Box<dyn Control>,
}

/// What can be done to a command that runs.
#[async_trait::async_trait]
pub trait Control: Send {
    /// Its terminal has another size now.
    async fn resize(&mut self, size: TerminalSize) -> Result<(), RuntimeError>;

    /// Waits for its end and returns its exit code, or 128 and the number of the signal.
    async fn ended(&mut self) -> Result<i32, RuntimeError>;

    /// Ends it and what it started.
    async fn kill(&mut self);
}

//! Exit codes: a contract with scripts.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the answer is no, or something failed |
//! | 2 | the command was not understood |
//! | 3 | the server is not available, or the connection was lost |
//! | 130 | interrupted |
//!
//! `orrery exec` ends with the code of its command, 1 to 125 failures of its own included; `orrery
//! diff` answers 1 when there are differences, so its failures are 2 (or 3).
use crate::output::style;
use std::io::Write as _;
use std::process::ExitCode;

pub const FAILED: u8 = 1;
/// A failure of a command whose answer "no" is already 1.
pub const FAILED_TO_COMPARE: u8 = 2;
const DIFFERENT: u8 = 1;
const UNREACHABLE: u8 = 3;

/// Asked to stop by the person at the keyboard.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// A comparison found differences, and has shown them.
#[derive(Debug)]
pub struct Differences;

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("there are differences")
    }
}

impl std::error::Error for Differences {}

/// A command that ran elsewhere ended with this code.
#[derive(Debug)]
pub struct CommandEnded(pub i32);

impl std::fmt::Display for CommandEnded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the command ended with code {}", self.0)
    }
}

impl std::error::Error for CommandEnded {}

/// The code for an outcome; an error is printed. `failed` is the code of a failure that has none
/// of its own.
pub fn code(outcome: anyhow::Result<()>, failed: u8) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if error.is::<Differences>() {
        return ExitCode::from(DIFFERENT);
    }
    if let Some(CommandEnded(code)) = error.downcast_ref() {
        return ExitCode::from(u8::try_from(*code).unwrap_or(u8::MAX));
    }
    if error.is::<Interrupted>() {
        return ExitCode::from(130);
    }
    if is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    let mut stderr = std::io::stderr().lock();
    let label = style::stderr().error("error:");
    // Nothing is left to tell somebody who does not listen.
    let _ = writeln!(stderr, "{label} {}", told(&error));
    match error.downcast_ref::<orrery_client::Error>() {
        Some(
            orrery_client::Error::NotAvailable { .. } | orrery_client::Error::ConnectionLost { .. },
        ) => ExitCode::from(UNREACHABLE),
        Some(_) | None => ExitCode::from(failed),
    }
}

/// An error and its causes, each once: many say in their own words what caused them.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for said in error.chain().map(ToString::to_string) {
        if text.contains(&said) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&said);
    }
    text
}

/// Help, version and wrong usage, as clap words them.
pub fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to tell somebody who does not listen.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// `orrery get ... | head` ends when `head` does, and that is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let cause = || std::io::Error::other("the disk is full");
        let plain = anyhow::Error::new(cause()).context("cannot write a").context("cannot save");
        assert_eq!(told(&plain), "cannot save: cannot write a: the disk is full");
        let own = anyhow::Error::new(cause()).context("cannot write a: the disk is full");
        assert_eq!(told(&own), "cannot write a: the disk is full");
    }
}

//! Running other programs, in the open: what is run is printed, and what it prints is shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The one place here that reads a clock.
#[allow(clippy::disallowed_methods, reason = "how long a step took is real time")]
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Which stream of a child is read along while it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    Stdout,
    Stderr,
}

/// Prints the command and runs it with our own streams; true when it exits with zero.
pub fn run(command: &mut Command) -> Result<bool> {
    println!("$ {}", spelled(command));
    std::io::stdout().flush()?;
    let status = command.status().with_context(|| format!("start {}", spelled(command)))?;
    Ok(status.success())
}

/// Like [`run`], and hands every line of one stream to `listen` after it was shown.
pub fn run_listening(
    command: &mut Command,
    stream: Listen,
    mut listen: impl FnMut(&str),
) -> Result<bool> {
    println!("$ {}", spelled(command));
    match stream {
        Listen::Stdout => command.stdout(Stdio::piped()),
        Listen::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("start {}", spelled(command)))?;
    let output: Option<Box<dyn Read>> = match stream {
        Listen::Stdout => child.stdout.take().map(|output| Box::new(output) as _),
        Listen::Stderr => child.stderr.take().map(|output| Box::new(output) as _),
    };
    show_lines(output.context("the stream was piped")?, &mut listen)?;
    Ok(child.wait()?.success())
}

/// Bytes, not text: a test may print anything.
fn show_lines(output: impl Read, listen: &mut impl FnMut(&str)) -> Result<()> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? != 0 {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()?;
        listen(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}

/// Runs without showing anything; true when the program is there and exits with zero.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether a program of this name would be found.
pub fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers in sbin, which is not on everyone's path.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).any(|file| file.is_file())
}

/// `cargo` as the one that runs us.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn spelled(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

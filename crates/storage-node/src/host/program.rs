//! Runs the programs of the operating system that make and check file systems.
use crate::error::{Error, Result};
use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};
use tokio::process::Command;

/// Making a file system on a very large device takes minutes; longer means that the device hangs.
const TIME_MAX: Duration = Duration::from_secs(600);
/// As much of a program's complaint as fits into an answer.
const COMPLAINT_LENGTH_MAX: usize = 500;

/// Administrative programs are not on everybody's path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program to its end, whatever its exit code. It is killed when the caller gives up.
pub async fn output<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<Output> {
    let running = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(TIME_MAX, running).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::Unsupported(format!("the program {program} is not installed")))
        }
        Ok(Err(error)) => Err(Error::io(format!("run {program}"), error)),
        Err(_) => Err(Error::Deadline(format!("{program} did not end within {TIME_MAX:?}"))),
    }
}

/// Runs a program that has to succeed.
pub async fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<()> {
    let output = output(program, arguments).await?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(COMPLAINT_LENGTH_MAX).collect();
    let reason = std::io::Error::other(format!("{}: {said}", output.status));
    Err(Error::io(format!("run {program}"), reason))
}

//! Runs the programs of the operating system that make and check file systems.
use crate::error::{Error, Result};
use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{io::AsyncWriteExt, process::Command};

/// How long a program may take that only looks, or mounts; longer means that the device hangs.
const TIME_MAX: Duration = Duration::from_secs(600);
/// As much of a program's complaint as fits into an answer.
const COMPLAINT_LENGTH_MAX: usize = 500;

/// Administrative programs are not on everybody's path.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program to its end, whatever its exit code. It is killed when the caller gives up.
pub async fn output<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<Output> {
    let running = command(program, arguments).kill_on_drop(true).output();
    match tokio::time::timeout(TIME_MAX, running).await {
        Ok(ended) => ended.map_err(|error| not_run(program, error)),
        Err(_) => Err(Error::Deadline(format!("{program} did not end within {TIME_MAX:?}"))),
    }
}

/// The same for a program that is told what to do, and when to end, on its standard input, which stays open until
/// then.
pub async fn talk<A: AsRef<OsStr>>(
    program: &str,
    arguments: &[A],
    input: Vec<u8>,
    time_max: Duration,
) -> Result<Output> {
    let talked = async {
        let mut child =
            command(program, arguments).stdin(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take();
        let telling = async {
            let mut stdin = stdin;
            if let Some(stdin) = &mut stdin {
                // One that ends before it was told everything says why on its other streams.
                let _ = stdin.write_all(&input).await;
            }
            stdin
        };
        let (_open, ended) = tokio::join!(telling, child.wait_with_output());
        ended
    };
    match tokio::time::timeout(time_max, talked).await {
        Ok(ended) => ended.map_err(|error| not_run(program, error)),
        Err(_) => Err(Error::Deadline(format!("{program} did not end within {time_max:?}"))),
    }
}

/// The same for a program that writes to a device. It may take as long as it likes, which depends on the size of the
/// device, and is never killed: half of what it does is worse than nothing. It opens its device for itself alone, so
/// that none begins beside one that outlived us.
pub async fn to_the_end<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<Output> {
    let running = command(program, arguments).kill_on_drop(false).output();
    running.await.map_err(|error| not_run(program, error))
}

fn command<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn not_run(program: &str, error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        return Error::Unsupported(format!("the program {program} is not installed"));
    }
    Error::io(format!("run {program}"), error)
}

/// Runs a program that has to succeed.
pub async fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<()> {
    succeeded(program, &output(program, arguments).await?)
}

/// Runs a program that writes to a device and has to succeed.
pub async fn write<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<()> {
    succeeded(program, &to_the_end(program, arguments).await?)
}

pub fn succeeded(program: &str, output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(COMPLAINT_LENGTH_MAX).collect();
    let reason = std::io::Error::other(format!("{}: {said}", output.status));
    Err(Error::io(format!("run {program}"), reason))
}

#[cfg(test)]
mod tests {
    use super::{talk, to_the_end};
    use crate::error::Error;
    use std::{fs, path::Path, time::Duration};

    /// Longer than a shell takes to begin, on a busy machine too.
    const PATIENCE: Duration = Duration::from_secs(30);

    async fn until_there(path: &Path) {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// A program that makes a file system and is killed half way leaves half of one.
    #[tokio::test]
    async fn a_program_that_writes_goes_on_when_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let script = format!(
            "cd {}; touch begun; while ! test -e go; do sleep 0.02; done; touch ended",
            folder.path().display()
        );
        let begun = path("begun");
        {
            let arguments = ["-c", script.as_str()];
            let running = to_the_end("sh", &arguments);
            tokio::select! {
                ended = running => panic!("nobody let it go on: {ended:?}"),
                () = until_there(&begun) => {}
            }
        }
        fs::write(path("go"), "").unwrap();
        tokio::time::timeout(PATIENCE, until_there(&path("ended"))).await.expect("it goes on");
    }

    #[tokio::test]
    async fn a_program_is_told_what_to_do_and_given_up_when_it_does_not_end() {
        let told = talk("sh", &["-c", "read -r line; echo \"$line\""], b"end\n".to_vec(), PATIENCE);
        assert_eq!(told.await.unwrap().stdout, b"end\n");
        // Its input stays open, so it waits for more.
        let waiting = talk("cat", &[] as &[&str], Vec::new(), Duration::from_millis(50));
        assert!(matches!(waiting.await, Err(Error::Deadline(_))));
        let none = talk("orrery-no-such-program", &[] as &[&str], Vec::new(), PATIENCE);
        assert!(matches!(none.await, Err(Error::Unsupported(_))));
    }

    /// The largest devices take hours.
    #[tokio::test(start_paused = true)]
    async fn a_program_that_writes_takes_as_long_as_it_takes() {
        let ended = to_the_end("sh", &["-c", "sleep 0.3"]).await.unwrap();
        assert!(ended.status.success());
    }
}

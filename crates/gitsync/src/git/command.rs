//! One run of the git program: nothing of the server's surroundings, no questions, an end.
use super::address::Transport;
use super::credentials::Opened;
use super::error::GitError;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// How long one run may take.
const TIME_MAX: Duration = Duration::from_secs(120);
/// Bytes of what git prints that are looked at.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// Blocks of 512 bytes in one file that git writes: 512 MiB. What is larger is no repository of resources.
const FILE_BLOCKS_MAX: &str = "1048576";

/// What git may know of where it runs: where programs, proxies and authorities are.
const PASSED_ON: &[&str] = &[
    "PATH",
    "TMPDIR",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
];

/// Settings that no repository and no user can change. There is never a working tree, so that links, hooks,
/// filters and submodules of a repository stay names and bytes.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.version=2",
    "http.followRedirects=false",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
    "commit.gpgSign=false",
    "push.recurseSubmodules=no",
    "advice.diverging=false",
];

/// A run that is being put together.
pub struct Run<'a> {
    pub folder: &'a Path,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    /// What may be spoken with, where anything is.
    pub opened: Option<(&'a Opened, Transport)>,
    pub input: Vec<u8>,
    /// Beside those that every run has.
    pub settings: &'a [String],
}

/// What came of it.
pub struct Output {
    pub success: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl<'a> Run<'a> {
    pub fn new(folder: &'a Path, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let (environment, input) = (Vec::new(), Vec::new());
        Self { folder, arguments, environment, opened: None, input, settings: &[] }
    }

    /// Runs, and fails if git does.
    pub async fn checked(self) -> Result<Vec<u8>, GitError> {
        let what = self.arguments.first().cloned().unwrap_or_default();
        let output = self.output().await?;
        if output.success {
            return Ok(output.stdout);
        }
        Err(GitError::failed(&what, &output.stderr))
    }

    pub async fn output(self) -> Result<Output, GitError> {
        let what = self.arguments.first().cloned().unwrap_or_default();
        match tokio::time::timeout(TIME_MAX, self.finish()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(GitError::TimedOut { what, seconds: TIME_MAX.as_secs() }),
        }
    }

    async fn finish(mut self) -> Result<Output, GitError> {
        let input = std::mem::take(&mut self.input);
        let mut child = self.start()?;
        let mut stdin = child.stdin.take();
        let write = async move {
            if let Some(stdin) = &mut stdin {
                // Who does not want all of it says so by its exit.
                let _ = stdin.write_all(&input).await;
            }
            drop(stdin);
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let ((), stdout, stderr) = tokio::join!(write, read(stdout), read(stderr));
        let status = child.wait().await.map_err(GitError::Start)?;
        let stderr = String::from_utf8_lossy(&stderr?).into_owned();
        Ok(Output { success: status.success(), stdout: stdout?, stderr })
    }

    /// The shell only sets the limit and becomes git.
    fn start(&self) -> Result<Child, GitError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -f \"$0\" && exec git \"$@\"", FILE_BLOCKS_MAX]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let opened = self.opened.map(|(opened, _)| opened);
        for setting in opened.map(Opened::settings).unwrap_or_default().iter().chain(self.settings)
        {
            command.args(["-c", setting]);
        }
        command.args(&self.arguments).current_dir(self.folder);
        let passed = PASSED_ON.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        command.env_clear().envs(passed);
        let credentials = opened.map(Opened::environment).unwrap_or_default();
        command.envs(credentials.iter().map(|(key, value)| (key, value)));
        let allowed = self.opened.map_or("", |(_, transport)| transport.as_str());
        command
            .env("GIT_DIR", self.folder)
            .env("HOME", self.folder)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", allowed)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command.spawn().map_err(GitError::Start)
    }
}

async fn read(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> Result<Vec<u8>, GitError> {
    let mut bytes = Vec::new();
    let Some(stream) = stream else { return Ok(bytes) };
    let mut limited = stream.take(OUTPUT_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).await.map_err(GitError::Start)?;
    if OUTPUT_BYTES_MAX < bytes.len() as u64 {
        return Err(GitError::TooLarge { bytes_max: OUTPUT_BYTES_MAX });
    }
    Ok(bytes)
}

//! Running the binary: with a home of its own, on a port of its own.
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub const ORRERY: &str = env!("CARGO_BIN_EXE_orrery");

/// How long a test waits for what should happen soon; generous, because machines are busy.
const SOON: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// For what keeps the machine busy: looking must not slow it down.
const SLOWLY: Duration = Duration::from_millis(500);

/// Waits until `look` finds something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..SOON.as_millis() / LOOK_AGAIN.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        pause();
    }
    panic!("waited in vain until {what}");
}

/// The same for what takes longer, with what to say if it does not happen.
#[track_caller]
pub fn until_within<T>(
    seconds: u64,
    mut look: impl FnMut() -> Option<T>,
    why: impl FnOnce() -> String,
) -> T {
    for _ in 0..seconds * 1000 / SLOWLY.as_millis() as u64 {
        if let Some(found) = look() {
            return found;
        }
        pause_for(SLOWLY);
    }
    panic!("waited in vain: {}", why());
}

/// A person's home folder.
pub struct Home {
    pub folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command, with nothing of this machine's own configuration.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.folder.path()).env("TERM", "dumb");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).current_dir(repository());
        command
    }

    pub fn orrery(&self, arguments: &[&str]) -> Done {
        Done::from(self.command(ORRERY).args(arguments).output().unwrap())
    }

    /// Starts `orrery up` and waits until it is ready.
    pub fn up(&self) -> Up {
        self.start(&["up", "--listen", "127.0.0.1:0"])
    }

    pub fn start(&self, arguments: &[&str]) -> Up {
        let mut command = self.command(ORRERY);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("Ctrl-C stops") {
            let length = stdout.read_line(&mut said).unwrap();
            if length == 0 {
                let mut error = String::new();
                child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                panic!("it ended instead of getting ready: {said}{error}");
            }
        }
        Up { child, said }
    }
}

/// A server or agent of the test's own, ended with it.
pub struct Process(pub Child);

impl Process {
    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is asked to end, so that it can take along what it started.
pub struct Asked(pub Process);

impl Drop for Asked {
    fn drop(&mut self) {
        end(&mut self.0.0);
    }
}

impl Home {
    /// Starts `orrery server` on a folder of this home and returns its address. It logs to a file
    /// beside that folder: `NAME.log`.
    pub fn server(&self, data: &str, more: &[String]) -> (Process, String) {
        let at = ["--listen".to_owned(), "127.0.0.1:0".to_owned()];
        self.server_at(data, &[&at, more].concat())
    }

    /// The same with the address among the options.
    pub fn server_at(&self, data: &str, more: &[String]) -> (Process, String) {
        let mut command = self.command(ORRERY);
        command.args(["server", "--data-dir"]).arg(self.path(data));
        let log = self.path(&format!("{data}.log"));
        command.args(more).stderr(std::fs::File::create(&log).unwrap());
        let mut process = Process(command.spawn().unwrap());
        let url = until("the server serves", || {
            let text = std::fs::read_to_string(&log).unwrap();
            let ended = process.0.try_wait().unwrap().is_some();
            assert!(!ended, "the server ended: {text}");
            // The line may be half written.
            let line = text.lines().find(|line| line.contains("serving on "));
            let line = line.filter(|_| text.ends_with('\n'))?;
            Some(line.split("serving on ").nth(1)?.split([' ', '"', '\n']).next()?.to_owned())
        });
        (process, url)
    }
}

/// Asks over plain HTTP; the code and the body, or nothing when nobody answers.
pub fn http_get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    /// What it printed; it must have succeeded.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// What it complained about; it must have failed with this code.
    #[track_caller]
    pub fn bad(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.err
    }
}

/// A running `orrery up`, ended with the test.
pub struct Up {
    child: Child,
    said: String,
}

impl Up {
    /// What it told until it was ready.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// The address of the server.
    pub fn server(&self) -> String {
        self.word("server")
    }

    /// Where machine drivers register.
    pub fn drivers(&self) -> String {
        self.word("drivers")
    }

    /// Where storage controllers register.
    pub fn storage(&self) -> String {
        self.word("storage")
    }

    fn word(&self, of: &str) -> String {
        let words = self.said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        words
            .filter(|words| words.first() == Some(&of))
            .map(|words| words[1].to_owned())
            .next()
            .unwrap()
    }

    /// Presses Ctrl-C and waits for the end.
    pub fn interrupt(&mut self) -> ExitStatus {
        signal(self.child.id(), rustix::process::Signal::INT);
        let child = &mut self.child;
        until("orrery up has ended", || child.try_wait().unwrap())
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Up {
    /// Asked first, so that the workloads go too, also when the test has failed.
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Asks a process to end, and makes it end when it does not.
fn end(child: &mut Child) {
    // It may have ended already.
    signal(child.id(), rustix::process::Signal::INT);
    for _ in 0..SOON.as_millis() / LOOK_AGAIN.as_millis() {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        pause();
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[allow(
    clippy::disallowed_methods,
    reason = "other processes tell nobody: all there is is to look"
)]
fn pause_for(time: Duration) {
    std::thread::sleep(time);
}

fn pause() {
    pause_for(LOOK_AGAIN);
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // A process that has ended needs no signal.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Whether a process is there and not a zombie.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

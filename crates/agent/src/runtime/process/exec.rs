//! Commands beside a process: with its environment, folder, user, limits and groups.
use super::super::RuntimeError;
use super::super::exec::{Control, ExecRequest, Executing, Written};
use super::record::{self, Folder, Launch};
use super::{blocking, state};
use crate::config::SupervisorCommand;
use crate::supervisor::stage::{BESIDE, BESIDE_TERMINAL};
use crate::{cgroups, procfs};
use futures::stream::{self, BoxStream, StreamExt};
use orrery_proto::fleet::v1::TerminalSize;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::{io, path::PathBuf, process::Stdio};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// How much is read from a command at once.
const READ_BYTES: usize = 16 << 10;

pub(super) async fn begin(
    folder: Folder,
    supervisor: SupervisorCommand,
    request: ExecRequest,
) -> Result<Executing, RuntimeError> {
    if state::supervisor(folder.clone()).await?.is_none() {
        return Err(RuntimeError::NotRunning);
    }
    let terminal = request.tty.map(open_terminal).transpose();
    let terminal = terminal.map_err(RuntimeError::io("open a terminal"))?;
    let command = request.command.clone();
    let has_terminal = terminal.is_some();
    let path = folder.path().clone();
    let prepared = blocking("prepare the command", move || prepare(&folder, command, has_terminal));
    let (file, groups) = prepared.await?;
    let mut process = Command::new(&supervisor.program);
    process.args(&supervisor.args).arg(if has_terminal { BESIDE_TERMINAL } else { BESIDE });
    process.arg(path).arg(file).args(groups).env_clear().kill_on_drop(true);
    let begun = match terminal {
        Some(terminal) => on_terminal(process, terminal),
        None => on_pipes(process, request.stdin),
    };
    begun.map_err(RuntimeError::io("start the command"))
}

/// Writes down what to become, and finds the groups to join.
fn prepare(
    folder: &Folder,
    command: Vec<String>,
    terminal: bool,
) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let why = "what it was started with is not known any more, as after the loss of the agent's data \
               folder; restart it";
    let missing = || io::Error::new(io::ErrorKind::NotFound, why);
    let launch = folder.read_launch()?.ok_or_else(missing)?;
    let groups = cgroups::prepare(folder.name(), launch.group).join;
    let mut words = command.into_iter();
    let mut env = launch.env.clone();
    if terminal {
        env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
    }
    let beside =
        Launch { command: words.next().unwrap_or_default(), args: words.collect(), env, ..launch };
    let file = folder.path().join(format!("beside-{}.json", uuid::Uuid::new_v4()));
    record::write_launch(file.clone(), &beside)?;
    Ok((file, groups))
}

fn on_pipes(mut process: Command, stdin: bool) -> io::Result<Executing> {
    let input = if stdin { Stdio::piped() } else { Stdio::null() };
    process.process_group(0).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn()?;
    let out = child.stdout.take().map(|pipe| pieces(pipe, Written::Out));
    let err = child.stderr.take().map(|pipe| pieces(pipe, Written::Err));
    let input = child.stdin.take().map(|pipe| Box::pin(pipe) as Pin<Box<dyn AsyncWrite + Send>>);
    let output = stream::select_all(out.into_iter().chain(err)).boxed();
    let control = Beside { child, terminal: None };
    Ok(Executing { input, output, control: Box::new(control) })
}

/// Both ends of a terminal: ours and the command's.
struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

fn open_terminal(size: TerminalSize) -> io::Result<Terminal> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    // It is to be the command's terminal. An agent that leads a session without one (a service, the first
    // process of a container) would take it for its own, and be hung up with it.
    let how = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name.as_c_str(), how, Mode::empty())?;
    resize(ours.as_fd(), size)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok(Terminal { ours, theirs })
}

fn resize(terminal: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let side = |cells: u32| u16::try_from(cells).unwrap_or(u16::MAX);
    let size =
        Winsize { ws_row: side(size.rows), ws_col: side(size.columns), ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

fn on_terminal(mut process: Command, terminal: Terminal) -> io::Result<Executing> {
    let Terminal { ours, theirs } = terminal;
    process.stdin(theirs.try_clone()?).stdout(theirs.try_clone()?).stderr(theirs);
    let child = process.spawn()?;
    // A terminal is no pipe, but it is read, written and watched like one.
    let reader = pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?;
    let writer = pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?;
    let control = Beside { child, terminal: Some(ours) };
    Ok(Executing {
        input: Some(Box::pin(writer)),
        output: pieces(reader, Written::Out),
        control: Box::new(control),
    })
}

/// What is read, piece by piece. A terminal whose last user is gone says so with an error, which is
/// its way to end.
fn pieces(
    reader: impl AsyncRead + Send + Unpin + 'static,
    make: fn(Vec<u8>) -> Written,
) -> BoxStream<'static, io::Result<Written>> {
    stream::unfold(reader, move |mut reader| async move {
        let mut buffer = vec![0; READ_BYTES];
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(len) => {
                buffer.truncate(len);
                Some((Ok(make(buffer)), reader))
            }
        }
    })
    .boxed()
}

struct Beside {
    child: Child,
    terminal: Option<OwnedFd>,
}

#[async_trait::async_trait]
impl Control for Beside {
    async fn resize(&mut self, size: TerminalSize) -> Result<(), RuntimeError> {
        match &self.terminal {
            Some(terminal) => {
                resize(terminal, size).map_err(RuntimeError::io("resize its terminal"))
            }
            None => Ok(()),
        }
    }

    async fn ended(&mut self) -> Result<i32, RuntimeError> {
        let status = self.child.wait().await.map_err(RuntimeError::io("wait for the command"))?;
        let signal = status.signal().map(|signal| 128 + signal);
        Ok(status.code().or(signal).unwrap_or(i32::MAX))
    }

    async fn kill(&mut self) {
        self.end_all();
        let _ = self.child.kill().await;
    }
}

impl Beside {
    /// Ends it and what it started, without waiting for that.
    fn end_all(&self) {
        // Until it is waited for, its number stands for nobody else.
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let below = pid.map(|pid| procfs::descendants(pid).unwrap_or_default());
        if let Some(group) = pid.and_then(Pid::from_raw) {
            // It leads a group, with what it left running when it ended itself; an empty one is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
        for stat in below.unwrap_or_default() {
            // Gone already is as good.
            let _ = stat.identity.signal(Signal::KILL);
        }
    }
}

/// Nobody is at the other end any more: the agent stops, for example.
impl Drop for Beside {
    fn drop(&mut self) {
        self.end_all();
    }
}

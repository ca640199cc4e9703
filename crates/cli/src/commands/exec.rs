//! `orrery exec`.
use crate::args::{ExecArguments, Global};
use crate::connection::Target;
use crate::exit::CommandEnded;
use crate::signals::WindowChanges;
use anyhow::{Context as _, bail};
use orrery_client::commander::{Exec, ExecVoice};
use orrery_proto::fleet::v1::{
    ExecEnd, ExecRequest, ExecStart, TerminalSize, exec_event, exec_input,
};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Read, Write};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// How much is read from the keyboard, or a file, at once.
const READ_BYTES: usize = 16 << 10;

/// Pieces that wait between the thread that reads and the connection.
const PIECES_MAX: usize = 4;

pub async fn run(global: &Global, arguments: ExecArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    if arguments.tty && !isatty(io::stdin()) {
        bail!("standard input is no terminal; leave --tty out");
    }
    let server = target.connect().await?;
    let (name, instance) = match arguments.name.split_once('/') {
        Some((workload, instance)) => (workload.to_owned(), instance.to_owned()),
        None => (arguments.name, String::new()),
    };
    let start = ExecStart {
        command: arguments.command,
        stdin: arguments.stdin,
        tty: arguments.tty,
        size: arguments.tty.then(size).flatten(),
    };
    let project = target.project(arguments.project.as_deref());
    let request = ExecRequest { project, name, instance, start: Some(start) };
    let exec = server.exec(request).await?;
    let raw = if arguments.tty { Some(RawTerminal::begin()?) } else { None };
    let outcome = talk(exec, arguments.stdin, arguments.tty).await;
    drop(raw);
    let end = outcome?;
    match end.exit_code {
        Some(0) => Ok(()),
        Some(code) => Err(CommandEnded(code).into()),
        None => bail!("the command did not run to its end: {}", end.problem),
    }
}

/// Hands what is typed to the command and what it writes to the terminal, until it ends.
async fn talk(mut exec: Exec, stdin: bool, tty: bool) -> anyhow::Result<ExecEnd> {
    let voice = exec.voice();
    let credit = Arc::new(Semaphore::new(0));
    let mut resizes = WindowChanges::listen()?;
    let typing = type_on(voice.clone(), credit.clone(), stdin);
    tokio::pin!(typing);
    let mut typed = false;
    loop {
        tokio::select! {
            event = exec.next() => match event?.and_then(|event| event.message) {
                Some(exec_event::Message::Stdout(data)) => write(&mut io::stdout().lock(), &data)?,
                Some(exec_event::Message::Stderr(data)) => write(&mut io::stderr().lock(), &data)?,
                Some(exec_event::Message::Credit(more)) => {
                    credit.add_permits(usize::try_from(more).unwrap_or_default());
                }
                Some(exec_event::Message::End(end)) => return Ok(end),
                None => bail!("the server ended the command without a word"),
            },
            () = &mut typing, if !typed => typed = true,
            () = resizes.next(), if tty => if let Some(size) = size() {
                voice.say(exec_input::Message::Resize(size)).await;
            },
        }
    }
}

fn write(out: &mut impl Write, data: &[u8]) -> anyhow::Result<()> {
    out.write_all(data).and_then(|()| out.flush()).context("write what the command wrote")
}

/// Sends what is typed as the command has room for it; at its end, says so.
async fn type_on(voice: ExecVoice, credit: Arc<Semaphore>, stdin: bool) {
    if !stdin {
        return;
    }
    let (pieces, mut read) = mpsc::channel(PIECES_MAX);
    // A thread of its own: reading a terminal cannot be cancelled, and must not hold up the end.
    std::thread::spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(len @ 1..) = io::stdin().read(&mut buffer) {
            if pieces.blocking_send(buffer[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    while let Some(piece) = read.recv().await {
        let Ok(permit) = credit.acquire().await else { return };
        permit.forget();
        if !voice.say(exec_input::Message::Data(piece)).await {
            return;
        }
    }
    voice.say(exec_input::Message::End(true)).await;
}

fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    Some(TerminalSize { rows: size.ws_row.into(), columns: size.ws_col.into() })
}

/// The terminal hands over each key as it is; put back as it was when dropped.
struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    fn begin() -> anyhow::Result<Self> {
        let before = tcgetattr(io::stdin()).context("read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).context("change the terminal")?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Nothing is left to do for a terminal that is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

//! Waiting for the program, its output, its end, and those who want it to stop.
use super::family::Family;
use super::logs::Log;
use super::program::Program;
use crate::clock;
use crate::model::{StopSignal, UnixMillis};
use crate::procfs::Identity;
use crate::runtime::process::record::{Folder, Launch, Phase, Stop};
use std::{future::pending, io, time::Duration};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// How much is read from the program at once; the size of a pipe's buffer.
const READ_BYTES: usize = 64 << 10;

/// What a program leaves behind when it ends by itself gets its grace, but not more than this: a
/// restart waits for it.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// How long the last output is waited for when a stranger keeps the pipe open.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How long a record that cannot be written (a full disk) is tried again before the end of the
/// program is given up as lost.
const INSIST_FOR: Duration = Duration::from_secs(60);
const INSIST_INTERVAL: Duration = Duration::from_secs(1);

/// Everything the supervisor listens to.
pub(super) struct Watch {
    folder: Folder,
    run: String,
    /// How to stop when whoever asks does not say how.
    stop: Stop,
    children: Signal,
    terminate: Signal,
    interrupt: Signal,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    NotYet,
    /// Asked; killed at that time.
    Asked {
        kill_at: Instant,
    },
    Killing,
}

/// What woke the supervisor.
enum Event {
    Children,
    StopAsked,
    KillTime,
    Output(io::Result<usize>),
}

impl Watch {
    pub(super) fn new(folder: Folder, launch: &Launch) -> io::Result<Self> {
        Ok(Self {
            folder,
            run: launch.run.clone(),
            stop: launch.stop,
            children: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Returns when the program and all its descendants are gone, with what is to be recorded.
    pub(super) async fn until_over(&mut self, program: Program) -> io::Result<Phase> {
        let started_at = program.started_at;
        let since = Instant::now();
        let mut vigil = Vigil::new(program)?;
        vigil.look(self.stop)?;
        while !vigil.family.extinct {
            match self.next(&mut vigil).await {
                Event::Children => vigil.look(self.stop)?,
                Event::StopAsked => vigil.ask(self.requested())?,
                Event::KillTime => vigil.kill()?,
                Event::Output(outcome) => vigil.wrote(outcome),
            }
        }
        vigil.drain().await;
        vigil.ended(started_at, since.elapsed())
    }

    /// Ends a program that nobody would find again.
    pub(super) async fn abandon(&mut self, program: Identity) -> io::Result<()> {
        let mut family = Family::new(program);
        family.reap()?;
        while !family.extinct {
            family.kill()?;
            self.children.recv().await;
            family.reap()?;
        }
        Ok(())
    }

    async fn next(&mut self, vigil: &mut Vigil) -> Event {
        let kill_at = vigil.kill_at();
        tokio::select! {
            _ = self.children.recv() => Event::Children,
            _ = self.terminate.recv() => Event::StopAsked,
            _ = self.interrupt.recv() => Event::StopAsked,
            () = at(kill_at) => Event::KillTime,
            outcome = read(&mut vigil.output, &mut vigil.buffer) => Event::Output(outcome),
        }
    }

    /// What the agent asked for; or, when somebody else sent the signal, what the launch says.
    fn requested(&self) -> Stop {
        match self.folder.read_request() {
            Ok(Some(request)) if request.run == self.run => request.stop,
            Ok(_) | Err(_) => self.stop,
        }
    }
}

/// The state of one run.
struct Vigil {
    family: Family,
    ending: Ending,
    interrupted: bool,
    log: Log,
    /// Nothing when all who could write have closed it.
    output: Option<pipe::Receiver>,
    buffer: Vec<u8>,
}

impl Vigil {
    fn new(program: Program) -> io::Result<Self> {
        Ok(Self {
            family: Family::new(program.identity),
            ending: Ending::NotYet,
            interrupted: false,
            log: program.log,
            output: Some(pipe::Receiver::from_owned_fd(program.output)?),
            buffer: vec![0; READ_BYTES],
        })
    }

    fn kill_at(&self) -> Option<Instant> {
        match self.ending {
            Ending::Asked { kill_at } => Some(kill_at),
            Ending::NotYet | Ending::Killing => None,
        }
    }

    /// Sees who has ended, and sees to it that the others follow the program.
    fn look(&mut self, stop: Stop) -> io::Result<()> {
        self.family.reap()?;
        if self.family.extinct {
            return Ok(());
        }
        match self.ending {
            Ending::Killing => self.family.kill(),
            Ending::NotYet if self.family.exit.is_some() => {
                self.begin(stop.signal, stop.grace().min(LEFTOVER_GRACE))
            }
            Ending::NotYet | Ending::Asked { .. } => Ok(()),
        }
    }

    fn ask(&mut self, stop: Stop) -> io::Result<()> {
        // What ended before anybody asked ended by itself.
        self.interrupted |= self.family.exit.is_none();
        match self.ending {
            Ending::Killing => Ok(()),
            Ending::NotYet | Ending::Asked { .. } => self.begin(stop.signal, stop.grace()),
        }
    }

    /// Asking again, with a shorter grace for instance, never makes it longer.
    fn begin(&mut self, signal: StopSignal, grace: Duration) -> io::Result<()> {
        if signal == StopSignal::Kill || grace.is_zero() {
            return self.kill();
        }
        let kill_at = Instant::now() + grace;
        let kill_at = self.kill_at().map_or(kill_at, |earlier| earlier.min(kill_at));
        self.ending = Ending::Asked { kill_at };
        self.family.ask(signal.raw())
    }

    fn kill(&mut self) -> io::Result<()> {
        self.ending = Ending::Killing;
        self.family.kill()
    }

    /// A log that cannot be written (a full disk) is no reason to disturb the program: what it
    /// writes is dropped, and it does not block.
    fn wrote(&mut self, outcome: io::Result<usize>) {
        match outcome {
            Ok(0) | Err(_) => self.output = None,
            Ok(len) => {
                let _dropped_when_full = self.log.write(&self.buffer[..len], clock::unix_now());
            }
        }
    }

    /// What was written just before the end is still in the pipe. Nobody is left to write more, so
    /// its end comes at once; unless the pipe was handed to a stranger, for whom nobody waits long.
    async fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_PATIENCE;
        while self.output.is_some() {
            let reading = read(&mut self.output, &mut self.buffer);
            match timeout_at(deadline, reading).await {
                Ok(outcome) => self.wrote(outcome),
                Err(_elapsed) => return,
            }
        }
    }

    fn ended(&self, started_at: UnixMillis, ran: Duration) -> io::Result<Phase> {
        let unseen = || io::Error::other("the program vanished without an exit status");
        Ok(Phase::Ended {
            exit: self.family.exit.ok_or_else(unseen)?,
            interrupted: self.interrupted,
            started_at,
            finished_at: clock::unix_now(),
            ran_ms: u64::try_from(ran.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

async fn read(output: &mut Option<pipe::Receiver>, buffer: &mut [u8]) -> io::Result<usize> {
    match output {
        Some(output) => output.read(buffer).await,
        None => pending().await,
    }
}

/// Tries again for a while before it gives up; at once when the folder itself was deleted.
pub(super) async fn insist(mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let deadline = Instant::now() + INSIST_FOR;
    loop {
        match work() {
            Err(error) if error.kind() != io::ErrorKind::NotFound && Instant::now() < deadline => {
                sleep(INSIST_INTERVAL).await;
            }
            outcome => return outcome,
        }
    }
}

//! A process that is killed in the middle of its work, again and again, on the same directory.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use orrery_store::{
    EmbeddedOptions, Engine, Error, Expect, ListRequest, Op, Revision, embedded::Embedded,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Where the child works. Set by the parent, which is this same test program.
const DIRECTORY: &str = "ORRERY_STORE_CRASH_DIRECTORY";

/// How long the child may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);

pub const WRITERS: usize = 6;

/// The last number of each writer that was acknowledged.
pub type Acknowledged = [u32; WRITERS];

/// Small tables, so that sorted files are written and journals change within a short test.
fn options() -> EmbeddedOptions {
    EmbeddedOptions { memtable_bytes: 256 << 10, ..EmbeddedOptions::default() }
}

async fn open(path: &Path) -> Arc<Embedded> {
    let opened = Embedded::open(path, options()).await;
    opened.unwrap_or_else(|error| panic!("it opens after a crash: {error}"))
}

/// The next number of a writer, as the store has it.
async fn next(engine: &dyn Engine, writer: usize) -> u32 {
    let entry = engine.get(&format!("pair/{writer}/a")).await.expect("it answers");
    entry.map_or(1, |entry| parse(&entry.value) + 1)
}

fn parse(value: &[u8]) -> u32 {
    std::str::from_utf8(value).expect("it is text").trim_end().parse().expect("it is a number")
}

/// Commits numbers one after the other and says each once it is acknowledged, until one fails.
async fn work(engine: Arc<Embedded>, writer: usize, say: impl Fn(usize, u32)) -> Error {
    let mut number = next(engine.as_ref(), writer).await;
    loop {
        let revision = match commit(engine.as_ref(), writer, number).await {
            Ok(revision) => revision,
            Err(error) => return error,
        };
        say(writer, number);
        if number.is_multiple_of(50) {
            engine.compact(revision).await.expect("it can be compacted");
        }
        if number.is_multiple_of(120) {
            engine.reclaim().await.expect("space can be given back");
        }
        number += 1;
    }
}

/// One commit of three keys that must not be torn apart.
async fn commit(engine: &dyn Engine, writer: usize, number: u32) -> Result<Revision, Error> {
    // Padded with spaces, so that values are of different lengths and some fill several pages.
    let long = if number.is_multiple_of(9) { 12_000 } else { 0 };
    let value = format!("{number}{}", " ".repeat(long + number as usize * 37 % 900));
    let expect = if number == 1 { Expect::Absent } else { Expect::Present };
    let ops = vec![
        Op::put(format!("pair/{writer}/a"), value.clone(), expect),
        Op::create(format!("done/{writer}/{number:06}"), value.clone()),
        Op::put(format!("pair/{writer}/b"), value, expect),
    ];
    engine.commit(ops).await
}

/// Those whose commits write nothing. They are answered with those of the writers.
pub const IDLERS: usize = 8;

/// Half of them look only, the others are refused, until it is for another reason.
async fn idle(engine: Arc<Embedded>, idler: usize) -> String {
    let key = "idle";
    let made = engine.commit(vec![Op::create(key, "v")]).await;
    assert!(matches!(made, Ok(_) | Err(Error::Conflict { .. })), "{made:?}");
    let op = || match idler % 2 {
        0 => Op::check(key, Expect::Present),
        _ => Op::create(key, "w"),
    };
    loop {
        match engine.commit(vec![op()]).await {
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return error.to_string(),
        }
    }
}

/// The child: works until it is killed, or until commits fail; then it says why each did, waits for the
/// parent to speak, and tries once more. Run by itself it works for a moment only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let engine = open(directory.path()).await;
        let working = work(Arc::clone(&engine), 0, |_, _| {});
        let moment = Duration::from_millis(100);
        tokio::time::timeout(moment, working).await.expect_err("it never ends by itself");
        assert!(1 < next(engine.as_ref(), 0).await, "it has committed something");
        return;
    };
    let engine = open(Path::new(&directory)).await;
    let acknowledge = |writer: usize, number: u32| say(&format!("acknowledged {writer} {number}"));
    let writers = (0..WRITERS).map(|writer| work(Arc::clone(&engine), writer, acknowledge));
    let idlers = (0..IDLERS).map(|idler| idle(Arc::clone(&engine), idler));
    let (failures, idle) =
        futures::join!(futures::future::join_all(writers), futures::future::join_all(idlers),);
    idle.iter().for_each(|failure| say(&format!("idle {failure}")));
    failures.iter().for_each(|failure| say(&format!("failed {failure}")));
    say(&format!(
        "health {}",
        engine.health().map_or_else(|error| error.to_string(), |()| "good".into())
    ));
    let read = next(engine.as_ref(), 0).await - 1;
    say(&format!("read {read}"));
    let asked = std::io::stdin().lines().next();
    asked.expect("the parent speaks").expect("the parent speaks");
    let again = commit(engine.as_ref(), 0, read + 1).await;
    say(&format!("again {}", again.map_or_else(|error| error.to_string(), |r| r.to_string())));
    engine.close().await;
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").expect("the parent listens");
    out.flush().expect("the parent listens");
}

/// A child at work, and what it says.
pub struct Working {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
    pub acknowledged: Acknowledged,
}

/// What the child says is read at once; this is far more than it says between two looks.
const LINES_WAITING: usize = 65_536;

impl Working {
    pub fn start(directory: &Path, acknowledged: Acknowledged) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program has a name"))
            .args(["--exact", "crash::child", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let input = child.stdin.take().expect("it is piped");
        let (sender, lines) = mpsc::sync_channel(LINES_WAITING);
        // Ends with the child, whose end of the pipe it reads.
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines, acknowledged }
    }

    /// What the child says next, acknowledgements aside, which are noted; `None` at its end.
    pub fn hear(&mut self) -> Option<String> {
        loop {
            match self.listen()? {
                Said::Acknowledged => {}
                Said::Else(line) => return Some(line),
            }
        }
    }

    /// Waits until this many more commits were acknowledged.
    pub fn progress(&mut self, commits: usize) {
        let mut heard = 0;
        while heard < commits {
            match self.listen() {
                Some(Said::Acknowledged) => heard += 1,
                Some(Said::Else(line)) if line.starts_with("failed") => panic!("{line}"),
                Some(Said::Else(_)) => {}
                None => panic!("the child ended by itself after {heard} commits"),
            }
        }
    }

    fn listen(&mut self) -> Option<Said> {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the child is stuck"),
        };
        let mut words = line.split(' ');
        let said = words.next() == Some("acknowledged");
        let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
        // A line that a kill has cut short acknowledges nothing.
        if said && let (Some(writer), Some(last)) = (number(), number()) {
            self.acknowledged[writer as usize] = last;
            return Some(Said::Acknowledged);
        }
        Some(Said::Else(line))
    }

    /// Lets a child that waits go on.
    pub fn speak(&mut self) {
        writeln!(self.input, "go on").expect("the child listens");
    }

    /// Kills the child and notes what it had still said.
    pub fn kill(mut self) -> Acknowledged {
        self.child.kill().expect("a child can be killed");
        while self.hear().is_some() {}
        self.acknowledged
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // A child that has ended cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Said {
    Acknowledged,
    Else(String),
}

/// Nothing acknowledged is missing, and no commit is there in part. Answers the last number of each writer.
pub async fn verify(directory: &Path, acknowledged: &Acknowledged) -> Acknowledged {
    let engine = open(directory).await;
    let listing = engine.list(ListRequest::default()).await.expect("it lists");
    let find = |key: String| listing.entries.iter().find(|entry| *entry.key == key);
    let mut all = [0; WRITERS];
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        let last = |side: &str| {
            find(format!("pair/{writer}/{side}")).map_or(0, |entry| parse(&entry.value))
        };
        let found = last("a");
        assert_eq!(found, last("b"), "writer {writer}: a commit is there in part");
        assert!(*acknowledged <= found, "writer {writer}: {found} of {acknowledged} are there");
        let prefix = format!("done/{writer}/");
        let done = listing.entries.iter().filter(|entry| entry.key.starts_with(&prefix));
        let done: Vec<u32> = done.map(|entry| parse(&entry.value)).collect();
        assert_eq!(done, (1..=found).collect::<Vec<_>>(), "writer {writer}: none is missing");
        all[writer] = found;
    }
    engine.close().await;
    all
}

/// Killing with -9 at random points loses no acknowledged commit and leaves none in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut rng = StdRng::seed_from_u64(7);
    let mut acknowledged = [0; WRITERS];
    for _ in 0..5 * crate::soak() {
        let commits = rng.random_range(1..300);
        let mut working = Working::start(directory.path(), acknowledged);
        working.progress(commits);
        acknowledged = working.kill();
        verify(directory.path(), &acknowledged).await;
    }
}

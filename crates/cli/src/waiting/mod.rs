//! Waiting until resources are as they should be, and telling how it goes.
//!
//! ```text
//!   watches ──change──> judge (pure) ──verdict──> progress (a line changes, or a line more)
//!                                          │
//!                            all done, or one without hope, or the time is up
//! ```
mod judge;
mod progress;

pub use judge::{Goal, Verdict};
pub use progress::Style;

use crate::exit::Interrupted;
use crate::output::print;
use crate::session::{Scope, Session};
use crate::signals::{StopSignals, WindowChanges};
use crate::targets::Resource;
use crate::watching::{Change, Patience, Told, Watches, key};
use anyhow::bail;
use progress::Progress;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, interval_at};

/// When whoever waits without a terminal is told for what, and how often after that: something that never comes is
/// not to look like a program that hangs.
const REMIND_AFTER: Duration = Duration::from_secs(10);
const REMIND_EVERY: Duration = Duration::from_secs(60);

/// One resource that is waited for.
pub struct Awaited {
    pub resource: Resource,
    pub goal: Goal,
}

/// Waits until every goal is reached. Without a timeout it waits as long as it takes.
pub async fn wait(
    session: &Session,
    awaited: Vec<Awaited>,
    timeout: Option<Duration>,
    style: Style,
) -> anyhow::Result<()> {
    if awaited.is_empty() {
        return Ok(());
    }
    let mut signals = StopSignals::listen()?;
    let mut waiting = Waiting::new(awaited, style)?;
    let time_is_up = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = waiting.run(session) => return outcome,
        () = signals.next() => return Err(Interrupted.into()),
        () = time_is_up => {}
    }
    let open: Vec<String> = waiting.open().collect();
    let time = print_duration(timeout.unwrap_or_default());
    bail!("timed out after {time} waiting for {}", open.join(", "))
}

/// `5m` rather than `300s`.
fn print_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds, seconds % 3600, seconds % 60) {
        (0, _, _) => format!("{}ms", duration.as_millis()),
        (_, 0, _) => format!("{}h", seconds / 3600),
        (_, _, 0) => format!("{}m", seconds / 60),
        (_, _, _) => format!("{seconds}s"),
    }
}

/// Places in the list of what is waited for, by project and name.
type Members = BTreeMap<(String, String), usize>;

struct Waiting {
    awaited: Vec<Awaited>,
    verdicts: Vec<Verdict>,
    progress: Progress,
    resizes: WindowChanges,
}

impl Waiting {
    fn new(awaited: Vec<Awaited>, style: Style) -> anyhow::Result<Self> {
        let titles = awaited.iter().map(|one| one.resource.title()).collect();
        let verdicts = awaited.iter().map(|_| Verdict::Open(String::new())).collect();
        let resizes = WindowChanges::listen()?;
        Ok(Self { awaited, verdicts, progress: Progress::new(titles, style), resizes })
    }

    async fn run(&mut self, session: &Session) -> anyhow::Result<()> {
        let mut watches = Watches::default();
        let groups = self.groups();
        for (scope, members) in &groups {
            let Some(first) = members.values().next() else { continue };
            let one = &self.awaited[*first].resource;
            let name = if members.len() == 1 { one.name.name.as_str() } else { "" };
            watches.add(session, &one.kind, scope, name, Patience::Always)?;
        }
        let mut seen = vec![false; self.awaited.len()];
        let mut reminder = interval_at(Instant::now() + REMIND_AFTER, REMIND_EVERY);
        while !self.verdicts.iter().all(Verdict::is_done) {
            tokio::select! {
                (number, told) = watches.next_told() => match told? {
                    Told::Change(change) => self.take(&groups[number].1, change, &mut seen)?,
                    notice => self.progress.notice(&notice, &self.verdicts)?,
                },
                () = self.resizes.next() => self.progress.redraw(&self.verdicts)?,
                _ = reminder.tick() => self.progress.remind(&self.open().collect::<Vec<_>>()),
            }
        }
        Ok(())
    }

    /// One watch for each kind and project.
    fn groups(&self) -> Vec<(Scope, Members)> {
        let mut groups: BTreeMap<(String, String), Members> = BTreeMap::new();
        for (place, one) in self.awaited.iter().enumerate() {
            let (kind, project, name) = one.resource.key();
            groups.entry((kind, project.clone())).or_default().insert((project, name), place);
        }
        let scope = |project| Scope { project, ..Scope::default() };
        groups.into_iter().map(|((_, project), members)| (scope(project), members)).collect()
    }

    fn take(&mut self, members: &Members, change: Change, seen: &mut [bool]) -> anyhow::Result<()> {
        match change {
            Change::Is(object) => {
                if let Some(place) = members.get(&key(&object)).copied() {
                    seen[place] = true;
                    self.judge(place, Some(&object))?;
                }
            }
            Change::Gone(object) => {
                if let Some(place) = members.get(&key(&object)).copied() {
                    self.judge(place, None)?;
                }
            }
            Change::Again => members.values().for_each(|place| seen[*place] = false),
            Change::Complete => {
                for place in
                    members.values().copied().filter(|place| !seen[*place]).collect::<Vec<_>>()
                {
                    seen[place] = true;
                    self.judge(place, None)?;
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, place: usize, object: Option<&Value>) -> anyhow::Result<()> {
        if self.verdicts[place].is_done() {
            return Ok(());
        }
        let one = &self.awaited[place];
        let verdict = one.goal.judge(object);
        if let Verdict::Hopeless(why) = &verdict {
            bail!("{}: {why}", one.resource.title());
        }
        self.verdicts[place] = verdict;
        self.progress.changed(place, &self.verdicts)
    }

    /// What is still waited for, and what was last known of it.
    fn open(&self) -> impl Iterator<Item = String> + '_ {
        let pairs = self.awaited.iter().zip(&self.verdicts);
        pairs.filter_map(|(one, verdict)| match verdict {
            Verdict::Done(_) | Verdict::Hopeless(_) => None,
            Verdict::Open(why) if why.is_empty() => Some(one.resource.title()),
            Verdict::Open(why) => Some(format!("{} ({why})", one.resource.title())),
        })
    }
}

/// Says of each that it is done, without waiting: for what needs none.
pub fn say(resource: &Resource, word: &str) -> anyhow::Result<()> {
    print::line(&format!("{} {word}", resource.title()))
}

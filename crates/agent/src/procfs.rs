//! Processes as the kernel shows them, told apart by more than their number.
//!
//! A process id alone is not an identity: it is used again. Together with the time of its start it
//! is, within one boot; and signals go through a pidfd that was checked after it was opened.
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::{fs, io, os::fd::OwnedFd};

/// A process that cannot be mistaken for another one of the same boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub pid: i32,
    /// Start of the process in clock ticks since boot.
    pub start_ticks: u64,
}

/// The part of `/proc/<pid>/stat` that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub identity: Identity,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Ended, and waiting for its parent to notice.
    pub zombie: bool,
}

/// What is known of a process, or nothing when there is none.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of a program may contain anything, brackets too; the numbers start after the last one.
fn parse(pid: i32, text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X" | "x");
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let start_ticks = fields.nth(15)?.parse().ok()?;
    Some(Stat { identity: Identity { pid, start_ticks }, parent, group, session, zombie })
}

/// What a process has used and uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// Processor time in clock ticks.
    pub ticks: u64,
    /// Pages of memory that are not elsewhere.
    pub resident_pages: i64,
}

pub(crate) fn used(pid: i32) -> Option<Used> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let ticks = u64::try_from(number(11)? + number(12)?).ok()?;
    Some(Used { ticks, resident_pages: number(21)? })
}

/// Every process that can be seen.
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(stat).collect())
}

/// Everything below a process in the tree, whatever session or group it moved itself to.
///
/// Most kernels list the children of a process, so that this costs what is found. A list that is
/// read while one of them ends may lack another; whoever acts on it looks again after each end.
pub(crate) fn descendants(ancestor: i32) -> io::Result<Vec<Stat>> {
    if fs::exists("/proc/thread-self/children")? {
        return Ok(below(ancestor, listed_children));
    }
    let all = all()?;
    let children = |parent| all.iter().filter(|stat| stat.parent == parent).copied().collect();
    Ok(below(ancestor, children))
}

fn below(ancestor: i32, children: impl Fn(i32) -> Vec<Stat>) -> Vec<Stat> {
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        let children = children(parent);
        parents.extend(children.iter().map(|stat| stat.identity.pid));
        found.extend(children);
    }
    found
}

/// Each thread has its own list. A process that has just ended has none.
fn listed_children(parent: i32) -> Vec<Stat> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    let stats = pids.filter_map(|pid| stat(pid.parse().ok()?));
    stats.filter(|stat| stat.parent == parent).collect()
}

/// This process.
pub(crate) fn myself() -> io::Result<Identity> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let missing = || io::Error::new(io::ErrorKind::NotFound, "/proc does not show this process");
    stat(pid).map(|stat| stat.identity).ok_or_else(missing)
}

/// Different for each start of the machine.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Whether the process was started with this variable (`NAME=value`) in its environment.
pub(crate) fn carries(pid: i32, variable: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

/// The variables that the process was started with; none when they are not for this user to see.
pub(crate) fn environment(pid: i32) -> BTreeMap<String, String> {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let entries = environ.split(|byte| *byte == 0);
    let pairs = entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The words that the process was started with, its own name first.
pub(crate) fn words(pid: i32) -> Vec<OsString> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.strip_suffix(&[0]).unwrap_or(&words);
    words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// Whether the process is this user's in every sense, so that nobody else has made it what it is.
pub(crate) fn is_own(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let me = rustix::process::geteuid().as_raw().to_string();
    let mut users = users.split_ascii_whitespace().peekable();
    users.peek().is_some() && users.all(|user| user == me)
}

impl Identity {
    /// Whether it still runs. One that ended and was not yet waited for does not.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.identity == self && !stat.zombie)
    }

    /// A handle that keeps meaning this process even after its number is used again; nothing when
    /// it is gone. The handle becomes readable when the process ends.
    pub(crate) fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let handle = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let same = stat(self.pid).is_some_and(|stat| stat.identity == self);
        Ok(same.then_some(handle))
    }

    /// Sends the signal, or returns false when the process is gone.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<bool> {
        let Some(handle) = self.open()? else { return Ok(false) };
        match pidfd_send_signal(handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_hostile_program_name_changes_nothing() {
        let line = "7 (a) S 1 (b) Z 2) S 1 2 3 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 1";
        let stat = parse(7, line).unwrap();
        assert_eq!(stat.identity, Identity { pid: 7, start_ticks: 9876 });
        assert_eq!((stat.parent, stat.group, stat.session, stat.zombie), (1, 2, 3, false));
        assert_eq!(parse(7, "7 (x"), None);
        assert_eq!(parse(7, "7 (x) S 1 2"), None);
    }

    #[test]
    fn this_process_is_alive_and_its_boot_has_an_id() {
        let me = myself().unwrap();
        assert!(me.is_alive());
        assert!(me.open().unwrap().is_some());
        let impostor = Identity { start_ticks: me.start_ticks + 1, ..me };
        assert!(!impostor.is_alive(), "the number alone is not enough");
        assert!(impostor.open().unwrap().is_none());
        assert_eq!(boot_id().unwrap().len(), 36);
    }

    #[test]
    fn both_ways_to_find_descendants_agree() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 1];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let everybody = all().unwrap();
        let scanned = below(pid, |parent| {
            everybody.iter().filter(|stat| stat.parent == parent).copied().collect()
        });
        let found = descendants(pid).unwrap();
        assert_eq!(found, scanned);
        assert_eq!(found.len(), 1);
        assert!(found[0].identity.signal(Signal::KILL).unwrap());
        shell.wait().unwrap();
    }

    #[test]
    fn a_child_is_found_marked_signalled_and_gone() {
        let mut child = Command::new("sleep")
            .arg("600")
            .env("ORRERY_TEST_MARK", "yes")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let me = myself().unwrap().pid;
        let found = descendants(me).unwrap();
        let stat = found.iter().find(|stat| stat.identity.pid == pid).expect("it is below us");
        // The kernel lets the parent go on a moment before the environment of the child is in place.
        let marked = |_| {
            std::thread::yield_now();
            carries(pid, "ORRERY_TEST_MARK=yes")
        };
        assert!((0..1_000_000).any(marked));
        assert!(!carries(pid, "ORRERY_TEST_MARK=ye"));
        assert!(stat.identity.signal(Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!stat.identity.is_alive());
        assert!(!stat.identity.signal(Signal::KILL).unwrap());
    }
}

//! Power cuts and disks that fail: what was acknowledged is there, whatever the disk forgot.

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    crash::{Acknowledged, IDLERS, WRITERS, Working, verify},
    disk::{Disk, Fault, Mounted},
};

/// Looks at a copy of what is on the disk, so that this process, which serves the file system,
/// never waits for it. Answers what is there.
async fn examine(disk: &Disk, acknowledged: &Acknowledged) -> Acknowledged {
    let copy = tempfile::tempdir().expect("a temporary directory");
    disk.copy_to(copy.path());
    verify(&copy.path().join(STORE), acknowledged).await
}

const STORE: &str = "store";

/// What whoever had a commit on its way is told before the reason.
const UNKNOWN: &str = "the outcome of the commit is unknown: ";

fn start(mounted: &Mounted, acknowledged: Acknowledged) -> Working {
    Working::start(&mounted.path().join(STORE), acknowledged)
}

/// Cuts the power again and again while commits, compactions and rewrites of tables go on.
async fn rounds(seed: u64, rounds: usize, luck: bool) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut disk = Disk::default();
    let mut acknowledged = [0; WRITERS];
    for _ in 0..rounds {
        let mounted = Mounted::new(&disk);
        let mut working = start(&mounted, acknowledged);
        working.progress(rng.random_range(1..200));
        // First what was acknowledged, then the cut: everything in it must have survived.
        let before = working.acknowledged;
        let after = disk.cut(luck.then_some(&mut rng));
        working.kill();
        drop(mounted);
        examine(&after, &before).await;
        (disk, acknowledged) = (after, before);
    }
}

/// An acknowledged commit is synced: the disk keeps nothing but what was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_nothing_that_was_acknowledged() {
    rounds(1, 3 * crate::soak(), false).await;
}

/// The same where parts of what was not synced have made it, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_that_tears_files_apart_loses_nothing_either() {
    rounds(2, 3 * crate::soak(), true).await;
}

/// Proves that the disk forgets: without it, the tests above could not fail.
#[test]
fn the_disk_forgets_what_was_not_synced() {
    let disk = Disk::default();
    let mounted = Mounted::new(&disk);
    // By a process of its own, as the store is.
    let script = "printf synced > file && sync file . && printf ' and not' >> file && \
                  printf not > other && cat file";
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(mounted.path()).args(["-c", script]);
    let output = shell.output().expect("a shell runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "synced and not", "{output:?}");
    assert!(2 <= disk.syncs());
    drop(mounted);
    let read = |disk: &Disk, name: &str| {
        let copy = tempfile::tempdir().expect("a temporary directory");
        disk.copy_to(copy.path());
        std::fs::read_to_string(copy.path().join(name)).ok()
    };
    assert_eq!(read(&disk, "file").as_deref(), Some("synced and not"));
    assert_eq!(read(&disk.cut(None), "file").as_deref(), Some("synced"));
    assert_eq!(read(&disk.cut(None), "other"), None, "its name was not synced");
}

/// A disk that fails while writers are at work: writes stop with a message that says why, reads
/// go on, and on a good disk everything acknowledged is there again.
async fn check(fault: Fault, reason: &str) {
    let disk = Disk::default();
    let mounted = Mounted::new(&disk);
    let mut working = start(&mounted, [0; WRITERS]);
    working.progress(100);
    disk.fail(fault);
    let heard = |working: &mut Working, word: &str| loop {
        let line = working.hear().unwrap_or_else(|| panic!("the child says {word}"));
        if let Some(rest) = line.strip_prefix(word) {
            return rest.trim().to_owned();
        }
    };
    let idle: Vec<String> = (0..IDLERS).map(|_| heard(&mut working, "idle")).collect();
    let failed: Vec<String> = (0..WRITERS).map(|_| heard(&mut working, "failed")).collect();
    let health = heard(&mut working, "health");
    assert!(health.starts_with("the store takes no writes: "), "{health}");
    assert!(health.contains(reason), "{health}");
    // Of what the disk was just asked to keep nobody knows what became; what came later was not begun.
    let known: Vec<bool> = failed.iter().map(|failed| !failed.starts_with(UNKNOWN)).collect();
    for failed in &failed {
        let why = failed.strip_prefix(UNKNOWN).unwrap_or(failed);
        assert_eq!(why, health, "whoever asks is told the same");
    }
    assert_eq!(idle, vec![health.clone(); IDLERS], "nothing was to be done for them");
    // Nothing is on its way while the last commit is noted.
    let is_on_its_way = !health.contains("cannot note the last commit");
    assert!(!is_on_its_way || known.contains(&false), "{failed:?}");
    let read: u32 = heard(&mut working, "read").parse().expect("a number");
    assert!(working.acknowledged[0] <= read, "what was acknowledged can be read");
    disk.fail(Fault::None);
    working.speak();
    let again = heard(&mut working, "again");
    assert_eq!(again, health, "not before it was opened again, and it still says why");
    let (acknowledged, cut) = (working.acknowledged, disk.cut(None));
    while working.hear().is_some() {}
    drop((working, mounted));
    for disk in [disk, cut] {
        let found = examine(&disk, &acknowledged).await;
        for writer in (0..WRITERS).filter(|writer| known[*writer]) {
            assert_eq!(found[writer], acknowledged[writer], "it was not begun, and is not there");
        }
        let mounted = Mounted::new(&disk);
        let mut working = start(&mounted, acknowledged);
        working.progress(10);
        working.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_sync_stops_writes() {
    check(Fault::SyncFails, "Input/output error").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_writes() {
    check(Fault::Full { left: 100_000 }, "No space left on device").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_became_read_only_stops_writes() {
    check(Fault::ReadOnly, "Read-only file system").await;
}

use super::super::record::Launch;
use super::*;
use crate::lock;
use crate::model::{Exit, History, SpecHash, StopSignal, UnixMillis};
use crate::runtime::StopRequest;
use tokio::time::timeout;

fn launch(run: &str) -> Launch {
    let stop = StopRequest { signal: StopSignal::Term, grace: Duration::ZERO };
    Launch::new(run.into(), SpecHash("h".into()), History::default(), stop)
}

/// A record of this boot whose supervisor is this very process.
fn record(run: &str, phase: Phase) -> Record {
    let (boot, me) = (procfs::boot_id().unwrap(), procfs::myself().unwrap());
    let mut record = Record::starting(&launch(run), boot, me);
    record.phase = phase;
    record
}

fn running() -> Phase {
    Phase::Running { program: procfs::myself().unwrap(), started_at: UnixMillis(1) }
}

fn ended() -> Phase {
    let (started_at, finished_at) = (UnixMillis(1), UnixMillis(2));
    Phase::Ended { exit: Exit::Code(0), interrupted: false, started_at, finished_at, ran_ms: 1 }
}

fn folder() -> (tempfile::TempDir, Folder, InstanceId) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().to_owned());
    (dir, folder, InstanceId::new(&uuid::Uuid::new_v4().to_string()).unwrap())
}

/// What an agent sees that was born after the one before it was killed right after the spawn: the
/// lock is held, and the record is absent, of the run before, or not further than "starting".
#[track_caller]
fn check_waits(before: Option<Record>) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let (_dir, folder, id) = folder();
        let _lock = lock::try_lock(&folder.lock()).unwrap().unwrap();
        folder.write_launch(&launch("new")).unwrap();
        if let Some(record) = before {
            folder.write_record(&record).unwrap();
        }
        let early = timeout(5 * STARTING_INTERVAL, settled(&folder, &id)).await;
        assert!(early.is_err(), "{caller}: {early:?}");
        folder.write_record(&record("new", running())).unwrap();
        let run = settled(&folder, &id).await.unwrap().unwrap();
        assert!(run.is_live(), "{caller}: {run:?}");
    }
}

/// proves: AGT-15
#[tokio::test]
async fn a_supervisor_that_has_not_spoken_yet_is_waited_for() {
    check_waits(None).await;
    check_waits(Some(record("old", ended()))).await;
    check_waits(Some(record("old", running()))).await;
    check_waits(Some(record("new", Phase::Starting))).await;
}

#[tokio::test]
async fn without_a_supervisor_the_last_record_is_the_truth() {
    let (_dir, folder, id) = folder();
    assert_eq!(settled(&folder, &id).await.unwrap(), None);
    // Launched, but nobody came to do it.
    folder.write_launch(&launch("new")).unwrap();
    assert_eq!(settled(&folder, &id).await.unwrap(), None);
    folder.write_record(&record("old", ended())).unwrap();
    let run = settled(&folder, &id).await.unwrap().unwrap();
    assert!(matches!(run.state, RunState::Ended { exit: Exit::Code(0), .. }), "{run:?}");
    folder.write_record(&record("new", Phase::Starting)).unwrap();
    let run = settled(&folder, &id).await.unwrap().unwrap();
    assert!(matches!(run.state, RunState::StartFailed { .. }), "{run:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_unknown_and_says_which_file() {
    let (_dir, folder, id) = folder();
    for text in ["", "{", "{\"version\": 99}", "[]"] {
        std::fs::write(folder.record(), text).unwrap();
        let run = settled(&folder, &id).await.unwrap().unwrap();
        let RunState::Unknown { message } = &run.state else { panic!("{run:?}") };
        assert!(message.contains("run.json is broken"), "{message}");
    }
    let newer = serde_json::to_string(&record("r", ended())).unwrap();
    std::fs::write(folder.record(), newer.replace("\"version\":1", "\"version\":2")).unwrap();
    let run = settled(&folder, &id).await.unwrap().unwrap();
    let RunState::Unknown { message } = &run.state else { panic!("{run:?}") };
    assert!(message.contains("version 2, this agent knows 1"), "{message}");
}

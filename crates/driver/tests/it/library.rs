//! What the library does for a driver.
use crate::fake::{Session, World, operation};
use orrery_driver::ErrorCode;
use orrery_proto::infragrpc::driver_side::Response;
use orrery_proto::infragrpc::{MachineClassMeta, McMside, SecretMeta, mc_mside::Change};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

#[track_caller]
fn provider_id(answer: &Response) -> &str {
    let Response::Createresponse(made) = answer else { panic!("{answer:?}") };
    assert_eq!((made.error.as_str(), made.code), ("", 0));
    &made.provider_id
}

#[track_caller]
fn code(answer: &Response) -> ErrorCode {
    let Response::Createresponse(made) = answer else { panic!("{answer:?}") };
    assert!(!made.error.is_empty());
    made.code()
}

async fn create(session: &mut Session, id: i32, machine: &str, key: &str) -> Response {
    session.send(operation(id, "create", machine, key)).await;
    let (answered, answer) = session.answer().await;
    assert_eq!(answered, id);
    answer
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// proves: MCH-05
#[tokio::test(start_paused = true)]
async fn every_operation_is_answered_under_its_id() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    assert_eq!(provider_id(&create(&mut session, 2, "m", "").await), "p1");
    session.send(operation(3, "delete", "m", "")).await;
    let (id, answer) = session.answer().await;
    assert!(id == 3 && matches!(answer, Response::Deleteresponse(it) if it.error.is_empty()));
    session.send(operation(4, "list", "", "")).await;
    let (id, answer) = session.answer().await;
    assert!(id == 4 && matches!(answer, Response::Listresponse(it) if it.list.len() == 1));
    session.send(operation(5, "status", "", "")).await;
    let (id, answer) = session.answer().await;
    assert!(id == 5 && matches!(answer, Response::Statusresponse(it) if it.machine.is_some()));
}

/// Defect 11: head-of-line blocking in the client.
#[tokio::test(start_paused = true)]
async fn operations_run_concurrently() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(operation(2, "create", "wait", "")).await;
    assert_eq!(provider_id(&create(&mut session, 3, "m", "").await), "p2");
    world.driver.release.notify_one();
    assert_eq!(provider_id(&session.answer().await.1), "p1");
}

#[tokio::test(start_paused = true)]
async fn no_more_run_than_offered_and_the_rest_wait() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    for id in 2..8 {
        session.send(operation(id, "create", "wait", "")).await;
    }
    until("four of six run", || world.driver.begun.load(Ordering::SeqCst) == 4).await;
    for _ in 2..8 {
        world.driver.release.notify_one();
        session.answer().await;
    }
    assert_eq!(world.driver.begun.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_work() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(McMside { deadline_ms: 5_000, ..operation(2, "create", "hang", "") }).await;
    assert_eq!(code(&session.answer().await.1), ErrorCode::DeadlineExceeded);
    assert_eq!(world.driver.dropped.load(Ordering::SeqCst), 1, "the work was dropped");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_operation_stops() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(operation(2, "create", "hang", "k")).await;
    until("it began", || world.driver.begun.load(Ordering::SeqCst) == 1).await;
    let cancel =
        |id| McMside { operation_id: id, operation_type: "cancel".into(), ..Default::default() };
    session.send(cancel(77)).await;
    session.send(cancel(2)).await;
    assert_eq!(code(&session.answer().await.1), ErrorCode::Cancelled);
    assert_eq!(world.driver.dropped.load(Ordering::SeqCst), 1, "the work was dropped");
    assert_eq!(provider_id(&create(&mut session, 3, "m", "k").await), "p2", "asked for anew");
}

/// Defect 10: one key, one machine.
#[tokio::test(start_paused = true)]
async fn one_key_is_one_operation() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(operation(2, "create", "wait", "k")).await;
    session.send(operation(3, "create", "wait", "k")).await;
    until("it began", || world.driver.begun.load(Ordering::SeqCst) == 1).await;
    world.driver.release.notify_one();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (id, answer) = session.answer().await;
        assert_eq!(provider_id(&answer), "p1");
        ids.push(id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    assert_eq!(provider_id(&create(&mut session, 4, "wait", "k").await), "p1", "remembered");
    tokio::time::advance(Duration::from_secs(601)).await;
    let mut session = world.session(1).await;
    assert_eq!(provider_id(&create(&mut session, 5, "m", "k").await), "p2", "not for ever");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_remembered() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    assert_eq!(code(&create(&mut session, 2, "flaky", "k").await), ErrorCode::Unavailable);
    assert_eq!(provider_id(&create(&mut session, 3, "flaky", "k").await), "p2");
}

/// Defect 10: a reply lost at a disconnect leaked a machine.
#[tokio::test(start_paused = true)]
async fn an_operation_outlives_its_connection() {
    let mut world = World::start();
    let session = world.session(1).await;
    session.send(operation(2, "create", "wait", "k")).await;
    until("it began", || world.driver.begun.load(Ordering::SeqCst) == 1).await;
    drop(session);
    let mut session = world.session(1).await;
    session.send(operation(9, "create", "wait", "k")).await;
    world.driver.release.notify_one();
    let (id, answer) = session.answer().await;
    assert_eq!((id, provider_id(&answer)), (9, "p1"));
    assert_eq!(world.driver.begun.load(Ordering::SeqCst), 1, "made once");
}

#[tokio::test(start_paused = true)]
async fn it_reconnects_for_ever() {
    let mut world = World::start();
    for _ in 0..20 {
        drop(world.session(1).await);
    }
    let session = world.session(1).await;
    // A server that is there and says nothing is as good as gone.
    let silent_since = Instant::now();
    let again = world.session(1).await;
    assert!(silent_since.elapsed() >= Duration::from_secs(30));
    drop((session, again));
    // Neither does a refusal end it.
    let refusing = world.sessions.recv().await.expect("connects");
    let refusal = Err(tonic::Status::permission_denied("not you"));
    refusing.to_driver.send(refusal).await.expect("heard");
    drop(refusing);
    world.session(1).await;
}

#[tokio::test(start_paused = true)]
async fn it_never_dies_of_a_message() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    for name in ["", "explode", "cancel", "changed", "register", "unregister"] {
        let operation_type = name.into();
        session.send(McMside { operation_id: -3, operation_type, ..Default::default() }).await;
    }
    assert!(matches!(session.answer().await.1, Response::RegisterResp(_)));
    assert_eq!(code(&create(&mut session, 2, "panic", "").await), ErrorCode::Internal);
    let bare = McMside { operation_id: 3, operation_type: "create".into(), ..Default::default() };
    session.send(bare).await;
    assert_eq!(provider_id(&session.answer().await.1), "p2");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_answered() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(operation(2, "create", "wait", "")).await;
    until("it began", || world.driver.begun.load(Ordering::SeqCst) == 1).await;
    session.send(McMside { operation_type: "heartbeat".into(), ..Default::default() }).await;
    let beat = session.next().await;
    assert_eq!(beat.operation_type, "heartbeat");
    assert!(matches!(beat.response, Some(Response::Heartbeat(it)) if it.running == 1));
}

/// proves: MCH-04
#[tokio::test(start_paused = true)]
async fn classes_and_secrets_are_read_once_per_revision() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    let reads = world.reads.clone();
    let seen = || (reads.classes.load(Ordering::SeqCst), reads.secrets.load(Ordering::SeqCst));
    for id in 2..5 {
        provider_id(&create(&mut session, id, "read", "").await);
    }
    assert_eq!(seen(), (1, 1));
    let mut newer = operation(5, "create", "read", "");
    let params = newer.operationparams.as_mut().expect("has parameters");
    params.machine_class_meta_data.as_mut().expect("has a class").revision = 5;
    session.send(newer).await;
    provider_id(&session.answer().await.1);
    assert_eq!(seen(), (2, 1), "another revision is another class");

    let meta = SecretMeta { secret_name: "cloud".into(), name_space: "shop".into(), revision: 2 };
    let class = MachineClassMeta { name: "small".into(), revision: 6 };
    for (change, expect) in [
        (Change { secret: Some(meta), machine_class: None }, (3, 2)),
        (Change { secret: None, machine_class: Some(class) }, (4, 2)),
        (Change::default(), (5, 3)),
    ] {
        let operation_type = "changed".into();
        session.send(McMside { operation_type, changes: vec![change], ..Default::default() }).await;
        provider_id(&create(&mut session, 9, "read", "").await);
        assert_eq!(seen(), expect);
    }
    drop(session);
    let mut session = world.session(1).await;
    provider_id(&create(&mut session, 2, "read", "").await);
    assert_eq!(seen(), (6, 4), "announcements may have been missed");
}

#[tokio::test(start_paused = true)]
async fn the_machines_own_secret_fills_the_cloud_config() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    for (id, bootstrap) in [(2, None), (3, Some("join")), (4, Some("whole"))] {
        let mut message = operation(id, "create", "read", "");
        let params = message.operationparams.as_mut().expect("has parameters");
        params.bootstrap_secret = bootstrap.map(|name: &str| SecretMeta {
            secret_name: name.into(),
            name_space: "shop".into(),
            revision: 0,
        });
        session.send(message).await;
        provider_id(&session.answer().await.1);
    }
    assert_eq!(*world.driver.user_data.lock(), ["join ${orrery:token}", "join t0k3n", "own"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_waits_for_the_user() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    let mut message = operation(2, "create", "read", "");
    let params = message.operationparams.as_mut().expect("has parameters");
    params.machine_class_meta_data.as_mut().expect("has a class").name = "missing".into();
    session.send(message).await;
    let answer = session.answer().await.1;
    assert_eq!(code(&answer), ErrorCode::Unknown, "this server gave no code");
}

/// A server of the first contract announces nothing, so nothing may be cached.
#[tokio::test(start_paused = true)]
async fn nothing_is_cached_with_an_old_server() {
    let mut world = World::start();
    let mut session = world.session(0).await;
    for id in 2..4 {
        provider_id(&create(&mut session, id, "read", "").await);
    }
    assert_eq!(world.reads.classes.load(Ordering::SeqCst), 2);
    assert_eq!(world.reads.secrets.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn stopping_finishes_what_was_begun() {
    let mut world = World::start();
    let mut session = world.session(1).await;
    session.send(operation(2, "create", "wait", "")).await;
    until("it began", || world.driver.begun.load(Ordering::SeqCst) == 1).await;
    world.stop.cancel();
    assert_eq!(session.next().await.operation_type, "unregister");
    world.driver.release.notify_one();
    assert_eq!(provider_id(&session.answer().await.1), "p1");
    world.running.await.expect("ends by itself");
}

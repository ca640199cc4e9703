//! The thirteen defects of the contract's first implementation, each a test. Those that are decided
//! by one function are tested beside it: 7 in `pending`, 8 in `error` and `wire`, 9 in `access`.
use crate::world::{SOON, Scripted, World, call, key, loopback, machine, mk_new, mk_old, target};
use futures::future::join_all;
use orrery_machines::drivers::{DriverState, Effect, ErrorCode, GoneReason, OpError};
use orrery_proto::infragrpc::DriverSide;
use orrery_proto::infragrpc::driver_side::{CreateResp, DeleteResp, ListResp, Response};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

fn created(id: impl std::fmt::Display) -> Response {
    Response::Createresponse(CreateResp { provider_id: format!("p-{id}"), ..Default::default() })
}

fn listed() -> Response {
    Response::Listresponse(ListResp::default())
}

/// proves: MCH-03. Defects 1 and 7: the waiter was stored after the send, and ids collided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_answer_finds_its_waiter() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "fast")).await;
    world.until_state("fast", |it| *it == DriverState::Active).await;
    let answering = tokio::spawn(async move {
        let mut ids = HashSet::new();
        for _ in 0..500 {
            let asked = driver.next().await;
            assert!(ids.insert(asked.operation_id), "id {} twice", asked.operation_id);
            let name = asked.operationparams.expect("has parameters").machine_name;
            driver.answer(asked.operation_id, created(name)).await;
        }
        (ids, driver)
    });
    let creates = (0..500).map(|n| {
        let drivers = world.drivers.clone();
        async move {
            let made = drivers.create(&target("A"), &machine(&n.to_string()), &call(60)).await;
            assert_eq!(made.expect("created").provider_id, format!("p-{n}"));
        }
    });
    timeout(SOON, join_all(creates)).await.expect("no answer is lost");
    let (ids, _driver) = answering.await.expect("the driver saw all");
    assert!(!ids.contains(&1), "1 belongs to register");
}

/// Defect 2: no deadline.
#[tokio::test(start_paused = true)]
async fn an_operation_ends_at_its_deadline() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "mute")).await;
    let began = Instant::now();
    let (args, limit) = (machine("m"), call(45));
    let wanted = target("A");
    let create = world.drivers.create(&wanted, &args, &limit);
    let silent = async {
        let asked = driver.next().await;
        assert_eq!(asked.deadline_ms, 45_000, "the driver knows the deadline");
        let cancelled = driver.next().await;
        assert_eq!(cancelled.operation_type, "cancel");
        assert_eq!(cancelled.operation_id, asked.operation_id);
    };
    let (outcome, ()) = tokio::join!(create, silent);
    let error = outcome.expect_err("no answer came");
    assert!(matches!(error, OpError::TimedOut { .. }), "{error}");
    assert_eq!((error.code(), error.effect()), (ErrorCode::DeadlineExceeded, Effect::Perhaps));
    assert_eq!(began.elapsed(), Duration::from_secs(45));
}

/// Defect 2: no cancellation.
#[tokio::test(start_paused = true)]
async fn a_dropped_operation_is_cancelled_at_the_driver() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "d")).await;
    let drivers = world.drivers.clone();
    let create =
        tokio::spawn(async move { drivers.create(&target("A"), &machine("m"), &call(600)).await });
    let asked = driver.next().await;
    create.abort();
    let cancelled = driver.next().await;
    assert_eq!(cancelled.operation_type, "cancel");
    assert_eq!(cancelled.operation_id, asked.operation_id);
    // A late answer harms nobody.
    driver.answer(asked.operation_id, created("late")).await;
    let (list, ()) = tokio::join!(world.list("A"), async { driver.reply(listed()).await });
    assert_eq!(list.expect("goes on"), []);
}

/// Defect 3: a disconnect did not fail the pending operations.
#[tokio::test(start_paused = true)]
async fn a_disconnect_fails_what_is_pending() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_old("A", "d")).await;
    let began = Instant::now();
    let (wanted, limit) = (target("A"), call(600));
    let (sent, queued) = (machine("sent"), machine("queued"));
    let leaving = async move {
        driver.next().await;
        drop(driver);
    };
    let (first, second, ()) = tokio::join!(
        world.drivers.create(&wanted, &sent, &limit),
        world.drivers.create(&wanted, &queued, &limit),
        leaving
    );
    let (first, second) = (first.expect_err("lost"), second.expect_err("never sent"));
    assert!(matches!(first, OpError::AnswerLost { .. }), "{first}");
    assert_eq!(first.effect(), Effect::Perhaps);
    assert!(matches!(second, OpError::NotSent { .. }), "{second}");
    assert_eq!(second.effect(), Effect::None);
    assert!(began.elapsed() < Duration::from_secs(600), "not by the deadline");
}

/// Defect 4: a send error ended the whole manager.
#[tokio::test(start_paused = true)]
async fn a_lost_driver_is_no_matter_to_another() {
    let world = World::start();
    let gone = world.driver(loopback(1), mk_new("A", "gone")).await;
    let mut there = world.driver(loopback(2), mk_new("B", "there")).await;
    drop(gone);
    world.until_state("gone", |it| matches!(it, DriverState::Gone(_))).await;
    let error = world.drivers.create(&target("A"), &machine("m"), &call(5)).await;
    assert_eq!(error, Err(OpError::NoDriver { key: key("A") }));
    let (list, ()) = tokio::join!(world.list("B"), async { there.reply(listed()).await });
    assert_eq!(list.expect("goes on"), []);
}

/// Defect 5: the driver map had no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_come_and_go_while_operations_run() {
    let world = World::start();
    let churn = (0..8).map(|n| {
        let (world, name) = (&world, format!("d{n}"));
        async move {
            for _ in 0..5 {
                let mut driver = world.driver(loopback(n + 1), mk_new("A", &name)).await;
                let answered = timeout(Duration::from_millis(20), async {
                    loop {
                        let asked = driver.next().await;
                        driver.answer(asked.operation_id, created(1)).await;
                    }
                });
                assert!(answered.await.is_err(), "the driver ends by its own time");
            }
        }
    });
    let asking = async {
        for n in 0..200 {
            let made = world.drivers.create(&target("A"), &machine(&n.to_string()), &call(1)).await;
            if let Err(error) = made {
                assert_eq!(error.code(), ErrorCode::Unavailable, "{error}");
                tokio::task::yield_now().await;
            }
        }
    };
    timeout(SOON, async { tokio::join!(join_all(churn), asking) }).await.expect("nothing hangs");
    world.until(|infos| infos.iter().all(|it| matches!(it.state, DriverState::Gone(_)))).await;
}

/// Defect 6: a reply of the wrong type panicked.
#[tokio::test(start_paused = true)]
async fn an_answer_of_the_wrong_type_is_an_error() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_old("A", "d")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(5));
    for (wrong, name) in [
        (Some(Response::Deleteresponse(DeleteResp::default())), "an answer to delete"),
        (None, "nothing"),
    ] {
        let (outcome, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
            let operation_id = driver.next().await.operation_id;
            let operation_type = "create".into();
            driver.send(DriverSide { operation_id, operation_type, response: wrong }).await;
        });
        let error = outcome.expect_err("the wrong type");
        assert!(matches!(error, OpError::WrongAnswer { answer, .. } if answer == name), "{error}");
    }
    let (list, ()) = tokio::join!(world.drivers.list(&wanted, &args, &limit), async {
        driver.reply(listed()).await
    });
    assert_eq!(list.expect("goes on"), []);
}

/// Defect 10: create had no idempotency key. That one key makes one machine is the driver's part;
/// see the tests of the driver library.
#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_same_key() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "d")).await;
    let mut limit = call(5);
    limit.idempotency_key = "machine-uid-1".into();
    limit.trace_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into();
    for _ in 0..2 {
        let (wanted, args) = (target("A"), machine("m"));
        let (outcome, asked) =
            tokio::join!(world.drivers.create(&wanted, &args, &limit), driver.next());
        assert!(outcome.is_err());
        assert_eq!(asked.idempotency_key, "machine-uid-1");
        assert_eq!(asked.trace_parent, limit.trace_parent);
        assert_eq!(driver.next().await.operation_type, "cancel");
    }
}

/// proves: MCH-03. Defect 11: head-of-line blocking.
#[tokio::test(start_paused = true)]
async fn a_slow_operation_does_not_hold_up_others() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "d")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(60));
    let (slow, fast, ()) = tokio::join!(
        world.drivers.create(&wanted, &args, &limit),
        world.drivers.list(&wanted, &args, &limit),
        async {
            let (create, list) = (driver.next().await, driver.next().await);
            assert_eq!(create.operation_type, "create");
            assert_eq!(list.operation_type, "list");
            driver.answer(list.operation_id, listed()).await;
            driver.answer(create.operation_id, created(1)).await;
        }
    );
    assert_eq!(fast.expect("answered first"), []);
    assert_eq!(slow.expect("answered second").provider_id, "p-1");
}

/// Defect 13: no heartbeat, so a half-open connection kept a driver registered.
#[tokio::test(start_paused = true)]
async fn a_silent_driver_is_gone() {
    let world = World::start();
    let began = Instant::now();
    let driver = world.driver(loopback(1), mk_new("A", "frozen")).await;
    // The driver's process is stopped: its connection is open, but it reads and says nothing.
    world.until_state("frozen", |it| matches!(it, DriverState::Gone(GoneReason::Silent(_)))).await;
    assert!(began.elapsed() >= Duration::from_secs(30), "three heartbeats long");
    drop(driver);
}

/// Defect 13 for drivers of the first contract, which know no heartbeats: the transport asks.
#[tokio::test(start_paused = true)]
async fn an_old_driver_on_a_dead_connection_is_gone() {
    let world = World::start();
    let cut = CancellationToken::new();
    let channel = world.channel_until(loopback(1), cut.clone());
    let mut driver = Scripted::connect(channel).await;
    driver.register(mk_old("A", "cut-off")).await;
    world.until_state("cut-off", |it| *it == DriverState::Active).await;
    // From here on nothing comes through in either direction, and nobody is told.
    cut.cancel();
    world.until_state("cut-off", |it| matches!(it, DriverState::Gone(_))).await;
    drop(driver);
}

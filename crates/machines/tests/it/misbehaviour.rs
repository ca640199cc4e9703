//! Drivers that do what they should not.
use crate::world::{Scripted, World, call, loopback, machine, mk_new, mk_old, target};
use orrery_machines::drivers::{DriverState, GoneReason, OpError};
use orrery_proto::infragrpc::DriverSide;
use orrery_proto::infragrpc::driver_side::{ListResp, RegisterationResp, Response};
use tonic::Code;

fn listed() -> Response {
    Response::Listresponse(ListResp::default())
}

async fn refused_with(first: DriverSide, code: Code) {
    let world = World::start();
    let mut driver = Scripted::connect(world.channel(loopback(1))).await;
    driver.next().await;
    driver.send(first).await;
    assert_eq!(driver.from_server.message().await.expect_err("refused").code(), code);
    assert!(world.drivers.watch().borrow().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_bad_registration_is_refused_with_its_reason() {
    let nameless = Response::RegisterResp(RegisterationResp::default());
    refused_with(
        DriverSide { response: Some(nameless), ..Default::default() },
        Code::InvalidArgument,
    )
    .await;
    refused_with(
        DriverSide { response: Some(listed()), ..Default::default() },
        Code::InvalidArgument,
    )
    .await;
    refused_with(DriverSide::default(), Code::InvalidArgument).await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_never_registers_is_let_go() {
    let world = World::start();
    let mut driver = Scripted::connect(world.channel(loopback(1))).await;
    driver.next().await;
    let refused = driver.from_server.message().await.expect_err("let go");
    assert_eq!(refused.code(), Code::DeadlineExceeded);
}

/// Answers to nothing, twice, and a second registration leave the session as it is.
#[tokio::test(start_paused = true)]
async fn unknown_and_repeated_answers_are_ignored() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_old("A", "d")).await;
    let (wanted, args, limit) = (target("A"), machine(""), call(5));
    for _ in 0..3 {
        let (list, ()) = tokio::join!(world.drivers.list(&wanted, &args, &limit), async {
            let id = driver.next().await.operation_id;
            driver.answer(id + 1000, listed()).await;
            driver.answer(-5, listed()).await;
            driver.answer(1, Response::RegisterResp(mk_old("B", "other"))).await;
            driver.answer(id, listed()).await;
            driver.answer(id, listed()).await;
        });
        assert_eq!(list.expect("answered"), []);
    }
    let infos = world.until(|infos| infos.len() == 1).await;
    assert_eq!((infos[0].hello.name.as_str(), &infos[0].state), ("d", &DriverState::Active));
}

/// A driver that takes operations and answers none is given up on, so that a standby can work.
#[tokio::test(start_paused = true)]
async fn a_stuck_driver_gives_way_to_its_standby() {
    let world = World::start();
    let stuck = world.driver(loopback(1), mk_old("A", "stuck")).await;
    let mut standby = world.driver(loopback(2), mk_old("A", "standby")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(1));
    for _ in 0..65 {
        let error = world.drivers.list(&wanted, &args, &limit).await.expect_err("no answer");
        assert!(matches!(error, OpError::TimedOut { .. }), "{error}");
    }
    world.until_state("stuck", |it| matches!(it, DriverState::Gone(GoneReason::Stuck(65)))).await;
    let (list, ()) = tokio::join!(world.drivers.list(&wanted, &args, &limit), async {
        standby.reply(listed()).await
    });
    assert_eq!(list.expect("the standby works"), []);
    drop(stuck);
}

/// A driver that does not read holds up nobody for longer than the deadline of the caller.
#[tokio::test(start_paused = true)]
async fn places_are_bounded_by_what_the_driver_offers() {
    let world = World::start();
    let mut hello = mk_new("A", "narrow");
    hello.max_concurrent = 2;
    let mut driver = world.driver(loopback(1), hello).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(5));
    let (one, two, three, ()) = tokio::join!(
        world.drivers.list(&wanted, &args, &limit),
        world.drivers.list(&wanted, &args, &limit),
        world.drivers.list(&wanted, &args, &limit),
        async {
            let (first, _second) = (driver.next().await, driver.next().await);
            driver.answer(first.operation_id, listed()).await;
            assert_eq!(driver.next().await.operation_type, "list", "a place is free again");
        }
    );
    assert!(one.is_ok());
    assert!(matches!(two, Err(OpError::TimedOut { .. })), "{two:?}");
    assert!(matches!(three, Err(OpError::TimedOut { .. })), "{three:?}");
}

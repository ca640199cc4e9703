//! More than one driver for the same kind.
use crate::world::{Scripted, World, call, key, loopback, machine, mk_new, mk_old, target};
use orrery_machines::drivers::{DriverState, GoneReason};
use orrery_proto::infragrpc::DriverSide;
use orrery_proto::infragrpc::driver_side::{CreateResp, RegisterationResp, Response};

async fn create_reaches(world: &World, driver: &mut Scripted) {
    let (wanted, args, limit) = (target("A"), machine("m"), call(5));
    let (made, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
        let asked = driver.next().await;
        let said = CreateResp { provider_id: "p".into(), ..Default::default() };
        driver.answer(asked.operation_id, Response::Createresponse(said)).await;
    });
    made.expect("this driver is the active one");
}

/// proves: MCH-02. Defect 12: one active driver per kind, no standby, no hand-over.
#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_first_goes() {
    for mk in [mk_old as fn(&str, &str) -> RegisterationResp, mk_new] {
        let world = World::start();
        let mut first = world.driver(loopback(1), mk("A", "first")).await;
        let mut second = world.driver(loopback(2), mk("A", "second")).await;
        world.until_state("second", |it| *it == DriverState::Standby).await;
        create_reaches(&world, &mut first).await;
        drop(first);
        world.until_state("second", |it| *it == DriverState::Active).await;
        create_reaches(&world, &mut second).await;
    }
}

/// An upgrade: the new driver is there, the old one says that it leaves and finishes its work.
#[tokio::test(start_paused = true)]
async fn a_leaving_driver_finishes_and_the_next_takes_over() {
    let world = World::start();
    let mut first = world.driver(loopback(1), mk_new("A", "first")).await;
    let mut second = world.driver(loopback(2), mk_new("A", "second")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(60));
    let (begun, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
        let asked = first.next().await;
        let operation_type = "unregister".into();
        first.send(DriverSide { operation_type, ..Default::default() }).await;
        world.until_state("second", |it| *it == DriverState::Active).await;
        create_reaches(&world, &mut second).await;
        let done = CreateResp { provider_id: "begun".into(), ..Default::default() };
        first.answer(asked.operation_id, Response::Createresponse(done)).await;
    });
    assert_eq!(begun.expect("finished").provider_id, "begun");
}

/// The same start of a driver that connects again replaces its half-open connection at once.
#[tokio::test(start_paused = true)]
async fn a_driver_that_connects_again_replaces_itself() {
    let world = World::start();
    let _half_open = world.driver(loopback(1), mk_new("A", "d")).await;
    let mut again = world.driver(loopback(2), mk_new("A", "d")).await;
    let infos = world.until(|infos| infos.len() == 2).await;
    assert_eq!(infos[0].state, DriverState::Active);
    assert_eq!(infos[1].state, DriverState::Gone(GoneReason::Replaced));
    assert!(infos[0].epoch > infos[1].epoch, "what the older one writes is fenced");
    create_reaches(&world, &mut again).await;
}

#[tokio::test(start_paused = true)]
async fn drivers_are_published_with_what_they_said() {
    let world = World::start();
    let _driver = world.driver(loopback(9), mk_new("A", "d")).await;
    let infos = world.until(|infos| !infos.is_empty()).await;
    let info = &infos[0];
    assert_eq!((&info.hello.key, info.hello.name.as_str()), (&key("A"), "d"));
    assert_eq!((info.hello.protocol, info.hello.max_concurrent), (1, 32));
    assert_eq!(info.peer, loopback(9));
    let tally = world.drivers.tally(info.epoch).expect("connected");
    assert_eq!((tally.in_flight, tally.succeeded, tally.failed), (0, 0, 0));
    world.drivers.shutdown().await;
    let infos = world.until(|infos| infos.len() == 1).await;
    assert_eq!(infos[0].state, DriverState::Gone(GoneReason::Stopping));
}

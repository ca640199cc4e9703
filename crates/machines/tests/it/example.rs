//! The example driver of the library, registered at the real edge.
use crate::world::{World, call, key, loopback, machine, target};
use orrery_driver::Options;
use orrery_machines::drivers::{DriverState, ErrorCode, SecretValue};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[allow(dead_code, reason = "its main is for people")]
#[path = "../../../driver/examples/memory.rs"]
mod memory;

fn with_class(world: &World, size: &str) {
    world.add_class("small", &key("MemoryMachine"), 4);
    let mut classes = world.sources.classes.lock();
    let class = classes.get_mut("small").expect("just added");
    class.json = format!(
        r#"{{"metadata":{{"namespace":"shop"}},"spec":{{"size":"{size}","secretRef":{{"name":"cloud"}}}}}}"#
    );
}

fn start(world: &World, name: &str, stop: &CancellationToken) -> tokio::task::JoinHandle<()> {
    let at = world.add_secret("cloud", Some(&key("MemoryMachine")));
    let value = SecretValue { revision: 1, json: r#"{"data":{"userData":"aGVsbG8="}}"#.into() };
    world.sources.secrets.lock().insert(at, value);
    let options = Options::new(name, "infra", "MemoryMachine", "v1");
    let driver = Arc::new(memory::Memory::default());
    tokio::spawn(orrery_driver::run(options, world.channel(loopback(1)), driver, stop.clone()))
}

/// proves: MCH-05, MCH-06
#[tokio::test(start_paused = true)]
async fn the_example_driver_makes_machines() {
    let world = World::start();
    with_class(&world, "small");
    let stop = CancellationToken::new();
    let running = start(&world, "memory", &stop);
    world.until_state("memory", |it| *it == DriverState::Active).await;

    let wanted = target("MemoryMachine");
    let mut limit = call(30);
    limit.idempotency_key = "uid-1".into();
    let made = world.drivers.create(&wanted, &machine("m1"), &limit).await.expect("created");
    assert_eq!((made.provider_id.as_str(), made.node_name.as_str()), ("memory-1", "m1"));
    let again = world.drivers.create(&wanted, &machine("m1"), &limit).await.expect("the same");
    assert_eq!(again.provider_id, made.provider_id);

    let found = world.drivers.list(&wanted, &machine(""), &call(5)).await.expect("listed");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].idempotency_key.as_str(), found[0].state.as_str()), ("uid-1", "running"));
    let mut gone = machine("m1");
    gone.id = "memory-1".into();
    world.drivers.delete(&wanted, &gone, &call(5)).await.expect("deleted");
    assert_eq!(world.drivers.status(&wanted, &gone, &call(5)).await.expect("asked"), None);

    stop.cancel();
    running.await.expect("ends");
    world.until_state("memory", |it| matches!(it, DriverState::Gone(_))).await;
}

/// Bad input: a spec that the driver refuses is the user's to correct, and says what is wrong.
#[tokio::test(start_paused = true)]
async fn a_refused_spec_says_why_and_is_not_retried() {
    let world = World::start();
    with_class(&world, "huge");
    let stop = CancellationToken::new();
    start(&world, "memory", &stop);
    world.until_state("memory", |it| *it == DriverState::Active).await;
    let outcome = world.drivers.create(&target("MemoryMachine"), &machine("m1"), &call(30)).await;
    let error = outcome.expect_err("refused");
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("there is only \"small\""), "{error}");
    world.sources.classes.lock().clear();
    let outcome = world.drivers.create(&target("MemoryMachine"), &machine("m2"), &call(30)).await;
    assert!(outcome.is_err(), "cached is what the class was, which is refused as well");
}

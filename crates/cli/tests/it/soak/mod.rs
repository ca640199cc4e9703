//! Two servers on a three-node etcd, of which members of both are killed at random, while clients
//! write, read and watch.
//!
//! ```text
//!   clients ──┬─> server ──┬─> etcd member        killer: kill -9 of one or the other, start again
//!   watchers ─┘   server ──┘   (three of them)
//!        └──> Call, Call, Call ... ─> history: could one copy have answered so?
//! ```
//! `cargo xtask soak replicas` runs it for five minutes.
mod clients;
mod history;
mod servers;
mod watchers;

use history::{Call, Told};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use servers::Servers;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// How long it runs when nobody asks for more.
const SHORT: Duration = Duration::from_secs(20);

/// How much longer: 1, or what `ORRERY_SOAK` says.
fn factor() -> u32 {
    let asked = std::env::var("ORRERY_SOAK").ok();
    asked.map_or(1, |text| text.parse().expect("ORRERY_SOAK is a number"))
}

/// What everyone in the test shares.
struct World {
    servers: Servers,
    /// Only grows: the order in which questions and answers were seen.
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
    over: CancellationToken,
}

/// proves: HUB-06
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_die_lose_and_repeat_nothing() {
    let world = Arc::new(World {
        servers: Servers::start(),
        clock: AtomicU64::new(1),
        calls: Mutex::default(),
        over: CancellationToken::new(),
    });
    clients::prepare(&world).await;
    let objects = tokio::spawn(watchers::objects(world.clone()));
    let instances = tokio::spawn(watchers::instances(world.clone()));
    let clients: Vec<_> = (0..clients::CLIENTS)
        .map(|number| tokio::spawn(clients::run(world.clone(), number)))
        .collect();
    let workloads = tokio::spawn(clients::declare_workloads(world.clone()));
    let kills = strike(&world, SHORT * factor()).await;
    world.over.cancel();
    for client in clients {
        client.await.expect("a client does not fail");
    }
    let declared = workloads.await.expect("workloads can be declared");
    clients::settle(&world, &declared).await;
    let told = objects.await.expect("the watch tells to the end");
    let instances = instances.await.expect("the watch tells to the end");
    let calls = std::mem::take(&mut *world.calls.lock().await);
    report(&kills, &calls, &told, &instances);
    history::check(calls, &told).unwrap_or_else(|problem| panic!("{problem}"));
    let made =
        history::in_order(&instances).and_then(|()| history::each_once(&declared, &instances));
    made.unwrap_or_else(|problem| panic!("{problem}"));
}

/// How often what was killed.
#[derive(Debug, Default)]
struct Kills {
    servers: usize,
    members: usize,
}

async fn strike(world: &Arc<World>, time: Duration) -> Kills {
    let mut rng = StdRng::seed_from_u64(11);
    let mut kills = Kills::default();
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        let rest = Duration::from_millis(rng.random_range(300..2500));
        let down = Duration::from_millis(rng.random_range(50..1200));
        let (server, member) = (rng.random_range(0..2), rng.random_range(0..3));
        tokio::time::sleep(rest).await;
        // A server, a member, or both at once; one of each is left.
        let which = rng.random_range(0..3);
        if which != 0 {
            world.servers.kill_member(member).await;
            kills.members += 1;
        }
        if which != 1 {
            world.servers.kill(server).await;
            kills.servers += 1;
        }
        tokio::time::sleep(down).await;
        if which != 0 {
            world.servers.restart_member(member).await;
        }
        if which != 1 {
            world.servers.restart(server).await;
        }
    }
    kills
}

#[allow(clippy::print_stdout, reason = "what a long run has done is worth reading")]
fn report(kills: &Kills, calls: &[Call], told: &[Told], instances: &[Told]) {
    let unknown = calls.iter().filter(|call| call.outcome == history::Outcome::Unknown).count();
    println!(
        "killed {} servers and {} members of etcd; {} calls, of which {unknown} were never \
         answered; {} changes and {} instances told",
        kills.servers,
        kills.members,
        calls.len(),
        told.len(),
        instances.len()
    );
}

//! Deployments from the spec to the provider: plans, loop bodies, edge, library and driver together,
//! with only the store and the cloud made for the test.
use crate::cluster::{Cloud, Cluster, Server, target};
use orrery_machines::controller::orphans::{OrphanTiming, sweep};
use orrery_machines::controller::{self, Next, WorldError};
use orrery_machines::plan::Phase;
use orrery_machines::plan::deployment::rollback;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// One look at everything per second of the paused clock.
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS_MAX: usize = 5_000;

/// The runtime in small: one reconcile per name at a time. Dropping it is a kill.
struct Controllers {
    cluster: Arc<Cluster>,
    server: Server,
    busy: HashSet<String>,
    tasks: JoinSet<(String, Result<Next, WorldError>)>,
}

impl Controllers {
    async fn start(cloud: &Arc<Cloud>, cluster: &Arc<Cluster>) -> Self {
        let server = Server::start(cloud).await;
        Self { cluster: cluster.clone(), server, busy: HashSet::new(), tasks: JoinSet::new() }
    }

    async fn round(&mut self) {
        self.begin().await;
        tokio::time::sleep(ROUND).await;
        while let Some(done) = self.tasks.try_join_next() {
            let (name, next) = done.expect("no reconcile panics");
            tolerate(next);
            self.busy.remove(&name);
        }
    }

    /// Everything that a round begins.
    async fn begin(&mut self) {
        let cluster = self.cluster.clone();
        tolerate(controller::deployment::reconcile(cluster.as_ref(), "d").await);
        let (sets, machines) = cluster.names();
        for set in sets {
            tolerate(controller::set::reconcile(cluster.as_ref(), &set).await);
        }
        self.check_bounds();
        for name in machines {
            if self.busy.insert(name.clone()) {
                let (cluster, drivers) = (self.cluster.clone(), self.server.edge.drivers.clone());
                self.tasks.spawn(async move {
                    let world = cluster.as_ref();
                    let next = controller::machine::reconcile(world, &drivers, world, &name).await;
                    (name, next)
                });
            }
        }
    }

    /// Terminating ones included, never more than may exist, unless there were before; and nothing
    /// is made twice.
    fn check_bounds(&self) {
        assert_eq!(*self.cluster.cloud.doubles.lock(), [""; 0]);
        let existing: usize = self.cluster.sets().iter().map(|set| set.machines.len()).sum();
        let limit = self.cluster.spec().limit() as usize;
        let creating =
            self.cluster.sets().iter().any(|set| (set.ceiling as usize) > set.machines.len());
        assert!(existing <= limit || !creating, "{existing} exist, {limit} may");
    }

    async fn until(&mut self, what: &str, is: impl Fn(&Cluster) -> bool) {
        for _ in 0..ROUNDS_MAX {
            self.round().await;
            if is(&self.cluster) {
                return;
            }
        }
        panic!("{what}: {:?}", self.cluster.sets());
    }

    async fn until_complete(&mut self) {
        self.until("complete", |it| it.complete() && runs(it, &it.spec().hash)).await;
    }
}

/// A conflict is looked at again in the next round.
fn tolerate(outcome: Result<Next, WorldError>) {
    match outcome {
        Ok(_) | Err(WorldError::Conflict(_)) => {}
        Err(error @ WorldError::Unavailable(_)) => panic!("{error}"),
    }
}

/// All machines are of this class, and as many as wanted run.
fn runs(cluster: &Cluster, hash: &str) -> bool {
    let sets = cluster.sets();
    let all: Vec<_> =
        sets.iter().flat_map(|set| set.machines.iter().map(move |it| (set, it))).collect();
    all.len() == cluster.spec().replicas as usize
        && all.iter().all(|(set, it)| set.hash == hash && it.phase == Phase::Running)
}

fn mk(replicas: u32, surge: u32, unavailable: u32) -> (Arc<Cloud>, Arc<Cluster>) {
    let cloud = Arc::new(Cloud::default());
    let cluster = Arc::new(Cluster::new(&cloud, replicas, surge, unavailable));
    (cloud, cluster)
}

/// proves: MCH-07. What a user does with a deployment.
#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_rolls_heals_scales_and_rolls_back() {
    let (cloud, cluster) = mk(3, 1, 0);
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    controllers.until_complete().await;
    assert_eq!(cloud.names().len(), 3);

    cluster.edit(|spec| spec.hash = "b".into());
    controllers.until_complete().await;
    assert!(cloud.names().iter().all(|it| it.starts_with("b-")), "{:?}", cloud.names());

    let victim = cloud.names()[0].clone();
    cloud.killed.lock().insert(victim.clone());
    controllers.until("replaced", |it| it.complete() && it.record(&victim).is_none()).await;
    assert!(!cloud.names().contains(&victim));
    let why = cluster.reasons(&victim);
    assert!(why.contains(&"Unhealthy") && why.contains(&"Replaced"), "{why:?}");

    cluster.edit(|spec| spec.replicas = 6);
    controllers.until_complete().await;
    cluster.edit(|spec| (spec.replicas, spec.hash) = (2, "c".into()));
    controllers.until_complete().await;
    assert_eq!(cloud.names().len(), 2);

    let back = rollback(&cluster.spec(), &cluster.sets(), None).expect("there is one").hash.clone();
    assert_eq!(back, "b");
    cluster.edit(|spec| spec.hash = back);
    controllers.until_complete().await;
    assert!(cloud.names().iter().all(|it| it.starts_with("b-")));

    cluster.edit(|spec| spec.replicas = 0);
    controllers.until_complete().await;
    assert!(cloud.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn frozen_and_paused_are_kept() {
    let (cloud, cluster) = mk(3, 1, 0);
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    controllers.until_complete().await;
    let before = cloud.names();
    cluster.edit(|spec| (spec.frozen, spec.hash, spec.replicas) = (true, "b".into(), 9));
    for _ in 0..1_000 {
        controllers.round().await;
    }
    assert_eq!(cloud.names(), before, "nothing happens while frozen");
    cluster.edit(|spec| (spec.frozen, spec.paused, spec.replicas) = (false, true, 4));
    controllers.until("scaled while paused", |it| it.sets()[0].machines.len() == 4).await;
    assert!(cloud.names().iter().all(|it| it.starts_with("a-")));
    cluster.edit(|spec| spec.paused = false);
    controllers.until_complete().await;
}

/// The server is killed again and again in the middle of a rollout, which goes on. No machine is
/// made twice.
#[tokio::test(start_paused = true)]
async fn a_rollout_survives_a_server_that_is_killed() {
    let (cloud, cluster) = mk(5, 2, 1);
    Controllers::start(&cloud, &cluster).await.until_complete().await;
    cluster.edit(|spec| spec.hash = "b".into());
    for rounds in 1..12 {
        let mut controllers = Controllers::start(&cloud, &cluster).await;
        for _ in 0..rounds % 4 {
            controllers.round().await;
        }
        // In the middle of what takes the provider 50 ms.
        controllers.begin().await;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Controllers::start(&cloud, &cluster).await.until_complete().await;
    assert_eq!(cloud.names().len(), 5);
}

/// A driver that makes machines and is killed before it answers: one machine each in the end.
#[tokio::test(start_paused = true)]
async fn lost_answers_make_no_second_machine() {
    let (cloud, cluster) = mk(3, 1, 0);
    *cloud.hangs.lock() = true;
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    for _ in 0..3 {
        controllers.round().await;
    }
    assert_eq!(cloud.names().len(), 3, "made, and not told");
    drop(controllers);
    *cloud.hangs.lock() = false;
    Controllers::start(&cloud, &cluster).await.until_complete().await;
    assert_eq!(cloud.names().len(), 3);
    assert_eq!(cloud.creates.lock().len(), 3);
}

/// A machine that is deleted while it is being created leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn deleting_during_a_create_leaves_nothing() {
    let (cloud, cluster) = mk(1, 1, 0);
    *cloud.hangs.lock() = true;
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    controllers.until("being created", |_| !cloud.names().is_empty()).await;
    let first = cloud.names()[0].clone();
    cluster.delete_machine(&first);
    *cloud.hangs.lock() = false;
    let asked = tokio::time::Instant::now();
    controllers.until_complete().await;
    assert!(asked.elapsed() < Duration::from_secs(60), "it did not wait for the deadline");
    assert!(!cloud.names().contains(&first));
    assert_eq!(cloud.names().len(), 1);
}

/// Bad input: a spec that the provider refuses makes no storm, and works once it is corrected.
#[tokio::test(start_paused = true)]
async fn a_refused_spec_makes_no_storm() {
    let (cloud, cluster) = mk(3, 1, 0);
    *cloud.refuses.lock() = Some(orrery_driver::Error::invalid("no such size"));
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    for _ in 0..3_000 {
        controllers.round().await;
    }
    assert_eq!(cloud.creates.lock().len(), 3, "one attempt each");
    let (_, machines) = cluster.names();
    let record = cluster.record(&machines[0]).expect("looked at");
    assert_eq!(record.phase, Phase::CrashLoopBackOff);
    assert!(record.last_operation.expect("told").description.contains("no such size"));
    *cloud.refuses.lock() = None;
    cluster.edit(|_| {});
    controllers.until_complete().await;
}

/// proves: MCH-07
#[tokio::test(start_paused = true)]
async fn orphans_go_after_a_while_and_never_while_frozen() {
    let (cloud, cluster) = mk(1, 1, 0);
    let mut controllers = Controllers::start(&cloud, &cluster).await;
    controllers.until_complete().await;
    cloud.machines.lock().insert("uid-stray".into(), "stray".into());
    cluster.edit(|spec| spec.frozen = true);
    let (drivers, mut seen) = (controllers.server.edge.drivers.clone(), Default::default());
    let world = cluster.as_ref();
    let (class, timing) = (target(), OrphanTiming::default());
    let mut sweep_for = async |hours: u64| {
        for _ in 0..hours * 6 {
            let next = sweep(world, &drivers, world, &class, &timing, &mut seen).await;
            let Ok(Next::After(wait)) = next else { panic!("{next:?}") };
            tokio::time::sleep(wait).await;
        }
    };
    sweep_for(3).await;
    assert_eq!(cloud.names().len(), 2, "frozen");
    cluster.edit(|spec| spec.frozen = false);
    sweep_for(1).await;
    assert_eq!(cloud.names(), ["a-001"]);
    assert_eq!(cluster.reasons("class"), ["Orphan"]);
}

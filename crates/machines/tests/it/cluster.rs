//! A store in memory that keeps the promises of the controllers' traits, and a cloud behind a real
//! driver at a real edge.
use crate::world::{World, key, loopback};
use orrery_driver as library;
use orrery_machines::controller::deployment::{DeploymentObject, DeploymentWorld};
use orrery_machines::controller::machine::{MachineObject, MachineWorld};
use orrery_machines::controller::orphans::OrphanWorld;
use orrery_machines::controller::set::{SetObject, SetWorld};
use orrery_machines::controller::{Clock, WorldError};
use orrery_machines::drivers::{DriverKey, DriverState, Target};
use orrery_machines::plan::deployment::{DeploymentPlan, DeploymentSpec, Progress, SetView};
use orrery_machines::plan::machine::{Limits, NodeHealth, Record, Wanted};
use orrery_machines::plan::orphans::Known;
use orrery_machines::plan::set::{MachineView, SetPlan, SetSpec};
use orrery_machines::plan::{Bound, Phase, Reason, Time};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The provider: machines by the key they were made for. It does not adopt, so a create that is
/// repeated without need shows.
#[derive(Default)]
pub struct Cloud {
    pub machines: Mutex<BTreeMap<String, String>>,
    pub killed: Mutex<HashSet<String>>,
    pub creates: Mutex<Vec<String>>,
    /// Machines that were made although they were there.
    pub doubles: Mutex<Vec<String>>,
    pub refuses: Mutex<Option<library::Error>>,
    /// Creates happen, and then never answer.
    pub hangs: Mutex<bool>,
    /// Creates and deletes read `token` of the class's secret.
    pub reads_secret: Mutex<bool>,
    pub secret_seen: Mutex<String>,
}

impl Cloud {
    pub fn names(&self) -> Vec<String> {
        self.machines.lock().values().cloned().collect()
    }
}

pub struct CloudDriver(pub Arc<Cloud>);

impl CloudDriver {
    async fn log_in(&self, request: &library::Request) -> Result<(), library::Error> {
        let reads_secret = *self.0.reads_secret.lock();
        if reads_secret {
            let secret = request.secret(&*request.class().await?).await?;
            *self.0.secret_seen.lock() = secret.text("token")?.to_owned();
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl library::Driver for CloudDriver {
    async fn create(&self, request: &library::Request) -> Result<library::Created, library::Error> {
        self.0.creates.lock().push(request.machine_name.clone());
        if let Some(error) = self.0.refuses.lock().clone() {
            return Err(error);
        }
        self.log_in(request).await?;
        let (key, name) = (request.idempotency_key.clone(), request.machine_name.clone());
        if self.0.machines.lock().insert(key.clone(), name.clone()).is_some() {
            self.0.doubles.lock().push(name.clone());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        if *self.0.hangs.lock() {
            std::future::pending::<()>().await;
        }
        Ok(library::Created { provider_id: key, node_name: name, ..Default::default() })
    }

    async fn delete(&self, request: &library::Request) -> Result<(), library::Error> {
        self.log_in(request).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.machines.lock().remove(&request.machine_id);
        Ok(())
    }

    async fn list(
        &self,
        _request: &library::Request,
    ) -> Result<Vec<library::Machine>, library::Error> {
        let mk = |(key, name): (&String, &String)| library::Machine {
            id: key.clone(),
            name: name.clone(),
            idempotency_key: key.clone(),
            ..Default::default()
        };
        Ok(self.0.machines.lock().iter().map(mk).collect())
    }
}

/// A server's edge with a driver of the cloud at it. Dropping it is a kill.
pub struct Server {
    pub edge: World,
    _driver: DropGuard,
}

impl Server {
    pub async fn start(cloud: &Arc<Cloud>) -> Self {
        let edge = World::start();
        let stop = CancellationToken::new();
        let options = library::Options::new("cloud", "infra", "Cloud", "v1");
        let driver = Arc::new(CloudDriver(cloud.clone()));
        let running = library::run(options, edge.channel(loopback(1)), driver, stop.clone());
        let killed = stop.clone();
        tokio::spawn(async move { killed.run_until_cancelled(running).await });
        edge.until_state("cloud", |it| *it == DriverState::Active).await;
        Self { edge, _driver: stop.drop_guard() }
    }
}

#[derive(Clone)]
struct Machine {
    set: String,
    created_at: Time,
    delete: bool,
    record: Option<Record>,
    record_version: u64,
}

struct Set {
    view: SetView,
    version: u64,
}

struct Store {
    spec: DeploymentSpec,
    progress: Option<Progress>,
    sets: BTreeMap<String, Set>,
    machines: BTreeMap<String, Machine>,
    /// Counts every change of the deployment or a set.
    version: u64,
    made: u64,
    events: Vec<(String, Reason)>,
}

pub struct Cluster {
    store: Mutex<Store>,
    pub cloud: Arc<Cloud>,
    changed: tokio::sync::Notify,
    began: Instant,
}

fn limits() -> Limits {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    Limits { creation: minutes(20), health: minutes(10), drain: minutes(5) }
}

impl Cluster {
    pub fn new(cloud: &Arc<Cloud>, replicas: u32, surge: u32, unavailable: u32) -> Self {
        let spec = DeploymentSpec {
            replicas,
            max_surge: Bound::Count(surge),
            max_unavailable: Bound::Count(unavailable),
            paused: false,
            frozen: false,
            hash: "a".into(),
            history_limit: 3,
        };
        let store = Store {
            spec,
            progress: None,
            sets: BTreeMap::new(),
            machines: BTreeMap::new(),
            version: 1,
            made: 0,
            events: Vec::new(),
        };
        Self {
            store: Mutex::new(store),
            cloud: cloud.clone(),
            changed: tokio::sync::Notify::new(),
            began: Instant::now(),
        }
    }

    /// What people do.
    pub fn edit(&self, change: impl FnOnce(&mut DeploymentSpec)) {
        let mut store = self.store.lock();
        change(&mut store.spec);
        store.version += 1;
    }

    pub fn spec(&self) -> DeploymentSpec {
        self.store.lock().spec.clone()
    }

    pub fn delete_machine(&self, name: &str) {
        if let Some(machine) = self.store.lock().machines.get_mut(name) {
            machine.delete = true;
        }
        self.changed.notify_waiters();
    }

    pub fn sets(&self) -> Vec<SetView> {
        self.store.lock().set_views()
    }

    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let store = self.store.lock();
        (store.sets.keys().cloned().collect(), store.machines.keys().cloned().collect())
    }

    pub fn complete(&self) -> bool {
        self.store.lock().progress.is_some_and(|it| it.complete)
    }

    pub fn record(&self, name: &str) -> Option<Record> {
        self.store.lock().machines.get(name)?.record.clone()
    }

    pub fn reasons(&self, name: &str) -> Vec<&'static str> {
        let store = self.store.lock();
        store.events.iter().filter(|(of, _)| of == name).map(|(_, it)| it.code).collect()
    }

    fn node(&self, name: &str, machine: &Machine) -> NodeHealth {
        node(&self.cloud, name, machine)
    }
}

/// An agent joins as soon as its machine runs, and is lost with it.
fn node(cloud: &Cloud, name: &str, machine: &Machine) -> NodeHealth {
    let joined = machine.record.as_ref().is_some_and(|it| it.joined);
    let known = machine.record.as_ref().and_then(|it| it.provider_id.clone());
    match known.filter(|id| cloud.machines.lock().contains_key(id)) {
        Some(_) if !cloud.killed.lock().contains(name) => NodeHealth::Healthy,
        Some(_) | None if joined => NodeHealth::Unhealthy,
        Some(_) | None => NodeHealth::Absent,
    }
}

impl Store {
    fn views(&self, set: &str) -> Vec<MachineView> {
        let mk = |(name, it): (&String, &Machine)| {
            let phase = it.record.as_ref().map_or(Phase::Pending, |record| record.phase);
            MachineView {
                name: name.clone(),
                phase,
                available: phase == Phase::Running,
                created_at: it.created_at,
                marked: false,
                keep: false,
                deleting: it.delete,
            }
        };
        self.machines.iter().filter(|(_, it)| it.set == set).map(mk).collect()
    }

    fn set_views(&self) -> Vec<SetView> {
        let mk = |set: &Set| SetView { machines: self.views(&set.view.name), ..set.view.clone() };
        self.sets.values().map(mk).collect()
    }
}

impl Clock for Cluster {
    fn now(&self) -> Time {
        let elapsed = jiff::SignedDuration::try_from(self.began.elapsed()).expect("in range");
        Time::UNIX_EPOCH + elapsed
    }
}

fn conflict(name: &str) -> WorldError {
    WorldError::Conflict(name.to_owned())
}

#[async_trait::async_trait]
impl MachineWorld for Cluster {
    async fn machine(&self, name: &str) -> Result<Option<MachineObject>, WorldError> {
        let store = self.store.lock();
        let Some(machine) = store.machines.get(name) else { return Ok(None) };
        let revision = store.version as i64;
        let wanted = Wanted {
            limits: limits(),
            delete: machine.delete,
            revision,
            frozen: store.spec.frozen,
            forget: false,
        };
        Ok(Some(MachineObject {
            wanted,
            record: machine.record.clone(),
            record_version: machine.record_version,
            node: self.node(name, machine),
            drained: true,
            target: target(),
            uid: format!("uid-{name}"),
            bootstrap: None,
            trace_parent: String::new(),
        }))
    }

    async fn write_record(
        &self,
        name: &str,
        version: u64,
        record: &Record,
        reasons: &[Reason],
    ) -> Result<u64, WorldError> {
        let mut store = self.store.lock();
        let machine = store.machines.get_mut(name).ok_or_else(|| conflict(name))?;
        if machine.record_version != version {
            return Err(conflict(name));
        }
        machine.record_version += 1;
        machine.record = Some(record.clone());
        store.events.extend(reasons.iter().map(|it| (name.to_owned(), it.clone())));
        Ok(version + 1)
    }

    async fn drain(&self, _name: &str) -> Result<(), WorldError> {
        Ok(())
    }

    async fn forget(&self, name: &str) -> Result<(), WorldError> {
        let mut store = self.store.lock();
        store.machines.remove(name);
        store.version += 1;
        Ok(())
    }

    async fn deletion_asked(&self, name: &str) {
        loop {
            let changed = self.changed.notified();
            if self.store.lock().machines.get(name).is_none_or(|it| it.delete) {
                return;
            }
            changed.await;
        }
    }

    async fn no_driver(&self, _: &str, _: &DriverKey, _: bool) -> Result<(), WorldError> {
        Ok(())
    }
}

#[async_trait::async_trait]
impl SetWorld for Cluster {
    async fn set(&self, name: &str) -> Result<Option<SetObject>, WorldError> {
        let store = self.store.lock();
        let Some(set) = store.sets.get(name) else { return Ok(None) };
        let spec = SetSpec {
            replicas: set.view.replicas,
            ceiling: Some(set.view.ceiling),
            max_replaced: Bound::Count(1),
            frozen: store.spec.frozen,
        };
        Ok(Some(SetObject { version: set.version, spec, machines: store.views(name) }))
    }

    async fn commit(&self, name: &str, version: u64, plan: &SetPlan) -> Result<(), WorldError> {
        let now = self.now();
        let mut store = self.store.lock();
        let set = store.sets.get_mut(name).filter(|it| it.version == version);
        set.ok_or_else(|| conflict(name))?.version += 1;
        store.version += 1;
        for _ in 0..plan.create {
            store.made += 1;
            let (machine, set) = (format!("{name}-{:03}", store.made), name.to_owned());
            let fresh =
                Machine { set, created_at: now, delete: false, record: None, record_version: 0 };
            store.machines.insert(machine, fresh);
        }
        for (machine, reason) in &plan.delete {
            store.machines.get_mut(machine).ok_or_else(|| conflict(machine))?.delete = true;
            store.events.push((machine.clone(), reason.clone()));
        }
        drop(store);
        self.changed.notify_waiters();
        Ok(())
    }
}

#[async_trait::async_trait]
impl DeploymentWorld for Cluster {
    async fn deployment(&self, _name: &str) -> Result<Option<DeploymentObject>, WorldError> {
        let store = self.store.lock();
        Ok(Some(DeploymentObject {
            version: store.version,
            spec: store.spec.clone(),
            sets: store.set_views(),
            progress: store.progress,
        }))
    }

    async fn commit(
        &self,
        name: &str,
        version: u64,
        plan: &DeploymentPlan,
    ) -> Result<(), WorldError> {
        let mut store = self.store.lock();
        if store.version != version {
            return Err(conflict(name));
        }
        for change in &plan.change {
            let set = store.sets.get_mut(&change.name).ok_or_else(|| conflict(name))?;
            set.version += 1;
            (set.view.revision, set.view.replicas, set.view.ceiling) =
                (change.revision, change.replicas, change.ceiling);
        }
        if let Some(made) = &plan.create {
            let view = SetView {
                name: made.hash.clone(),
                hash: made.hash.clone(),
                revision: made.revision,
                replicas: made.replicas,
                ceiling: made.ceiling,
                machines: Vec::new(),
            };
            store.sets.insert(made.hash.clone(), Set { view, version: 1 });
        }
        store.sets.retain(|name, _| !plan.remove.contains(name));
        store.progress = Some(plan.progress);
        Ok(())
    }
}

#[async_trait::async_trait]
impl OrphanWorld for Cluster {
    async fn known(&self) -> Result<Known, WorldError> {
        let names: HashSet<String> = self.store.lock().machines.keys().cloned().collect();
        let idempotency_keys = names.iter().map(|it| format!("uid-{it}")).collect();
        Ok(Known { names, idempotency_keys, ..Known::default() })
    }

    async fn frozen(&self, _target: &Target) -> Result<bool, WorldError> {
        Ok(self.store.lock().spec.frozen)
    }

    async fn tell(&self, _target: &Target, reason: &Reason) -> Result<(), WorldError> {
        self.store.lock().events.push(("class".into(), reason.clone()));
        Ok(())
    }
}

pub fn target() -> Target {
    Target { key: key("Cloud"), class: "small".into(), class_revision: 1 }
}

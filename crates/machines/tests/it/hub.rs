//! The controllers on a real server: kinds in the hub, a driver over TCP at the drivers' port, agents that
//! run nothing.
use crate::cluster::{Cloud, CloudDriver};
use futures::StreamExt as _;
use orrery_driver as library;
use orrery_hub::{Error, ObjectName, Resources, WatchEvent};
use orrery_proto::core::v1::{Project, Secret, SecretSpec};
use orrery_proto::infra::v1::{
    Driver, Machine, MachineClass, MachineClassSpec, MachineDeployment, MachineDeploymentSpec,
    MachineSet, MachineSpec, MachineTemplate,
};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::world::World;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

pub const PROJECT: &str = "shop";

/// A server and a cloud.
pub struct Installation {
    pub world: World,
    pub cloud: Arc<Cloud>,
    _agents: DropGuard,
}

impl Installation {
    pub async fn start() -> Self {
        let world = World::start().await;
        world.project(PROJECT).await;
        let cloud = Arc::new(Cloud::default());
        let stop = CancellationToken::new();
        let transport = InProcess::new(&world, <_>::default());
        let agents = join_agents(transport, cloud.clone());
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(agents).await });
        Self { world, cloud, _agents: stop.drop_guard() }
    }

    /// Connects a driver of the cloud; it goes when what is returned is dropped.
    pub fn driver(&self, kind: &str) -> DropGuard {
        let channel = library::channel(&self.world.drivers.to_string(), None).expect("an address");
        let options = library::Options::new("cloud", "infra.orrery.dev", kind, "v1");
        let stop = CancellationToken::new();
        let driver = Arc::new(CloudDriver(self.cloud.clone()));
        let running = library::run(options, channel, driver, CancellationToken::new());
        let killed = stop.clone();
        tokio::spawn(async move { killed.run_until_cancelled(running).await });
        stop.drop_guard()
    }

    /// Kills the only driver. Until the server knows, it may still hand it an operation.
    pub async fn kill(&self, driver: DropGuard) {
        drop(driver);
        let known = self.resources::<Driver>().list(<_>::default()).await.expect("a list");
        let meta = known.first().and_then(|it| it.metadata.clone()).expect("it was connected");
        let gone = |it: &Driver| it.status.as_ref().is_some_and(|it| it.state == "Gone");
        self.world.until(&ObjectName::new(&meta.project, &meta.name), gone).await;
    }

    pub fn resources<T: prost::Message + prost::Name + Default>(&self) -> Resources<T> {
        self.world.hub.resources().expect("a kind")
    }

    pub async fn class(&self, name: &str, spec: MachineClassSpec) -> MachineClass {
        let class = MachineClass { metadata: meta(name), spec: Some(spec), ..<_>::default() };
        self.resources().create(&class).await.expect("a new class")
    }

    pub async fn deployment(&self, replicas: i32, class: &str) {
        let template = MachineTemplate { class: Some(class.into()), ..<_>::default() };
        let spec = MachineDeploymentSpec {
            replicas: Some(replicas),
            template: Some(template),
            ..MachineDeploymentSpec::default()
        };
        let deployment =
            MachineDeployment { metadata: meta("pool"), spec: Some(spec), ..<_>::default() };
        self.resources().create(&deployment).await.expect("a new deployment");
    }

    /// One machine on its own.
    pub async fn machine(&self, name: &str, class: &str) {
        let spec = MachineSpec { class: Some(class.into()), ..MachineSpec::default() };
        let machine = Machine { metadata: meta(name), spec: Some(spec), ..<_>::default() };
        self.resources().create(&machine).await.expect("a new machine");
    }

    pub async fn until_complete(&self, replicas: i32) {
        let complete = |it: &MachineDeployment| {
            let (spec, status) = (it.spec.clone(), it.status.clone().unwrap_or_default());
            let generation = it.metadata.as_ref().map_or(0, |it| it.generation);
            status.state == "Complete"
                && status.observed_generation == generation
                && status.available == replicas
                && spec.is_some_and(|spec| spec.replicas() == replicas)
        };
        self.world.until(&at("pool"), complete).await;
    }

    pub async fn edit<T: prost::Message + prost::Name + Default>(
        &self,
        name: &str,
        change: impl Fn(&mut T),
    ) {
        let resources = self.resources::<T>();
        loop {
            let mut object = resources.find(&at(name)).await.expect("readable").expect("there");
            change(&mut object);
            match resources.apply(&object).await {
                Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                outcome => return outcome.map(|_| ()).expect("changed"),
            }
        }
    }
}

/// Every machine of the cloud that is not killed has an agent that is connected.
async fn join_agents(transport: InProcess, cloud: Arc<Cloud>) {
    let mut agents: HashMap<String, FakeAgent> = HashMap::new();
    loop {
        let names = cloud.names();
        let alive = |name: &String| names.contains(name) && !cloud.killed.lock().contains(name);
        agents.retain(|name, _| alive(name));
        for name in names.iter().filter(|name| alive(name)) {
            if !agents.contains_key(name)
                && let Ok(agent) = FakeAgent::connect(&transport, name).await
            {
                agents.insert(name.clone(), agent);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn meta(name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.into(), project: PROJECT.into(), ..ObjectMeta::default() })
}

pub fn at(name: &str) -> ObjectName {
    ObjectName::new(PROJECT, name)
}

pub fn of(provider: &str) -> MachineClassSpec {
    MachineClassSpec { provider: Some(provider.into()), ..MachineClassSpec::default() }
}

fn phase(machine: &Machine) -> &str {
    machine.status.as_ref().map_or("", |status| status.phase.as_str())
}

fn condition<'a>(machine: &'a Machine, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = &machine.status.as_ref()?.conditions;
    let found = conditions.iter().find(|it| it.r#type == kind)?;
    Some((found.status.as_str(), found.message.as_str()))
}

/// proves: MCH-02, MCH-06, MCH-07
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_scales_and_its_driver_is_shown() {
    let here = Installation::start().await;
    here.class("small", of("Cloud")).await;
    let _driver = here.driver("Cloud");
    here.deployment(120, "small").await;
    here.until_complete(120).await;
    assert!(here.cloud.doubles.lock().is_empty(), "every machine is made once");
    here.edit("pool", |it: &mut MachineDeployment| {
        it.spec.as_mut().expect("a spec").replicas = Some(3);
    })
    .await;
    here.until_complete(3).await;
    assert_eq!(here.cloud.names().len(), 3);
    let drivers = here.resources::<Driver>().list(<_>::default()).await.expect("a list");
    let states: Vec<&str> =
        drivers.iter().filter_map(|it| Some(it.status.as_ref()?.state.as_str())).collect();
    assert_eq!(states, ["Active"]);
}

/// Every revision at which a watch tells of objects of a kind, and how often.
async fn told<T: prost::Message + prost::Name + Default>(
    here: &Installation,
) -> impl Future<Output = BTreeMap<String, BTreeSet<String>>> {
    let resources = here.resources::<T>();
    let mut events = resources.accessor().watch(<_>::default()).await.expect("a watch");
    let (told, stop) = (Arc::new(Mutex::new(BTreeMap::new())), CancellationToken::new());
    let (noted, stopped) = (told.clone(), stop.clone());
    let listening = async move {
        while let Some(Ok(event)) = events.next().await {
            let (WatchEvent::Added(it) | WatchEvent::Modified(it) | WatchEvent::Deleted(it)) =
                event
            else {
                continue;
            };
            let mut noted = noted.lock();
            let names: &mut BTreeSet<String> =
                noted.entry(it.resource_version().to_owned()).or_default();
            names.insert(it.name().to_owned());
        }
    };
    let listening = tokio::spawn(async move { stopped.run_until_cancelled(listening).await });
    async move {
        stop.cancel();
        listening.await.expect("no panic");
        std::mem::take(&mut *told.lock())
    }
}

/// A watch that goes on from a revision leaves nothing out, because a revision names one object of its kind.
#[tokio::test(flavor = "multi_thread")]
async fn each_machine_and_each_set_has_revisions_of_its_own() {
    let here = Installation::start().await;
    here.class("small", of("Cloud")).await;
    let _driver = here.driver("Cloud");
    let (machines, sets) = (told::<Machine>(&here).await, told::<MachineSet>(&here).await);
    here.deployment(5, "small").await;
    here.until_complete(5).await;
    // Two sets change together while one is exchanged for the other.
    here.edit("pool", |it: &mut MachineDeployment| {
        let spec = it.spec.as_mut().expect("a spec");
        spec.max_surge = Some("3".to_owned());
        let template = spec.template.as_mut().expect("a template");
        template.labels.insert("generation".to_owned(), "second".to_owned());
    })
    .await;
    here.until_complete(5).await;
    for (kind, told) in [("machines", machines.await), ("sets", sets.await)] {
        let shared: Vec<_> = told.iter().filter(|(_, names)| 1 < names.len()).collect();
        assert!(shared.is_empty(), "{kind}: {shared:?}");
        assert!(1 < told.len(), "{kind} were heard of");
    }
}

/// proves: MCH-06
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_an_unknown_kind_waits_and_says_so() {
    let here = Installation::start().await;
    here.class("odd", of("Nobodys")).await;
    here.machine("m", "odd").await;
    let waiting = |it: &Machine| {
        condition(it, "DriverAvailable")
            .is_some_and(|(status, message)| status == "False" && message.contains("Nobodys"))
    };
    let machine = here.world.until(&at("m"), waiting).await;
    assert_eq!(phase(&machine), "Pending");
    let _driver = here.driver("Nobodys");
    here.world.until(&at("m"), |it: &Machine| phase(it) == "Running").await;
}

/// A machine that was never begun can be deleted without its driver; one that was waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_driver_only_what_was_never_made_goes() {
    let here = Installation::start().await;
    here.class("small", of("Cloud")).await;
    here.machine("never", "small").await;
    let machines = here.resources::<Machine>();
    machines.delete(&at("never")).await.expect("asked for");
    here.world.until_gone::<Machine>(&at("never")).await;

    let driver = here.driver("Cloud");
    here.machine("made", "small").await;
    here.world.until(&at("made"), |it: &Machine| phase(it) == "Running").await;
    here.kill(driver).await;
    machines.delete(&at("made")).await.expect("asked for");
    let waits = |it: &Machine| condition(it, "DriverAvailable").is_some_and(|it| it.0 == "False");
    here.world.until(&at("made"), waits).await;
    assert_eq!(here.cloud.names(), ["made"]);
    let _driver = here.driver("Cloud");
    here.world.until_gone::<Machine>(&at("made")).await;
    assert!(here.cloud.names().is_empty());
}

/// A driver that never comes back does not keep its machines for ever, once somebody says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_let_go_of_without_its_driver() {
    let here = Installation::start().await;
    here.class("small", of("Cloud")).await;
    let driver = here.driver("Cloud");
    here.machine("made", "small").await;
    here.world.until(&at("made"), |it: &Machine| phase(it) == "Running").await;
    here.kill(driver).await;
    let machines = here.resources::<Machine>();
    machines.delete(&at("made")).await.expect("asked for");
    let told = |it: &Machine| {
        let said = condition(it, "DriverAvailable");
        phase(it) == "Terminating"
            && said.is_some_and(|(_, said)| said.contains("machines.orrery.dev/forget=true"))
    };
    here.world.until(&at("made"), told).await;
    let let_go = |meta: &mut ObjectMeta| {
        meta.annotations.insert("machines.orrery.dev/forget".to_owned(), "true".to_owned());
    };
    machines.update_meta(&at("made"), let_go).await.expect("annotated");
    here.world.until_gone::<Machine>(&at("made")).await;
    assert_eq!(here.cloud.names(), ["made"], "the provider still has it");
}

/// proves: MCH-07
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_create_waits_for_a_change_and_then_goes_on() {
    let here = Installation::start().await;
    *here.cloud.refuses.lock() = Some(library::Error::invalid("spec.ami is missing"));
    here.class("small", of("Cloud")).await;
    let _driver = here.driver("Cloud");
    here.machine("m", "small").await;
    let refused = |it: &Machine| {
        let status = it.status.clone().unwrap_or_default();
        let said = status.last_operation.unwrap_or_default();
        status.waits_for_change_of.is_some() && said.error_code == "InvalidArgument"
    };
    let machine = here.world.until(&at("m"), refused).await;
    assert_eq!(phase(&machine), "CrashLoopBackOff");
    assert_eq!(here.cloud.creates.lock().len(), 1, "no retry storm");
    *here.cloud.refuses.lock() = None;
    here.edit("small", |it: &mut MachineClass| {
        it.spec.as_mut().expect("a spec").provider_spec = Some(<_>::default());
    })
    .await;
    here.world.until(&at("m"), |it: &Machine| phase(it) == "Running").await;
    assert_eq!(here.cloud.creates.lock().len(), 2);
}

/// proves: MCH-04
#[tokio::test(flavor = "multi_thread")]
async fn a_driver_reads_the_class_as_it_is_and_a_missing_secret_is_waited_for() {
    let here = Installation::start().await;
    *here.cloud.reads_secret.lock() = true;
    let spec = MachineClassSpec { secret: Some("keys".into()), ..of("Cloud") };
    here.class("small", spec).await;
    let _driver = here.driver("Cloud");
    here.machine("m", "small").await;
    let waits = |it: &Machine| {
        let status = it.status.clone().unwrap_or_default();
        status.last_operation.is_some_and(|it| it.description.contains("keys"))
            && status.waits_for_change_of.is_some()
    };
    here.world.until(&at("m"), waits).await;
    here.resources().create(&secret("keys")).await.expect("a new secret");
    here.world.until(&at("m"), |it: &Machine| phase(it) == "Running").await;
    assert_eq!(*here.cloud.secret_seen.lock(), "hunter2");
}

fn secret(name: &str) -> Secret {
    let data = HashMap::from([("token".to_owned(), b"hunter2".to_vec())]);
    let spec = SecretSpec { data, ..SecretSpec::default() };
    Secret { metadata: meta(name), spec: Some(spec), ..Secret::default() }
}

fn is_held(secret: &Secret) -> bool {
    let held = &secret.metadata.as_ref().expect("metadata").finalizers;
    held.iter().any(|it| it == orrery_machines::resources::SECRET_FINALIZER)
}

/// An installation whose cloud wants to see a secret for everything, with two machines in it.
async fn with_secret() -> (Installation, DropGuard) {
    let here = Installation::start().await;
    *here.cloud.reads_secret.lock() = true;
    here.resources().create(&secret("keys")).await.expect("a new secret");
    here.resources().create(&secret("other")).await.expect("a new secret");
    let spec = MachineClassSpec { secret: Some("keys".into()), ..of("Cloud") };
    here.class("small", spec).await;
    let driver = here.driver("Cloud");
    here.deployment(2, "small").await;
    here.until_complete(2).await;
    here.world.until(&at("keys"), is_held).await;
    (here, driver)
}

/// proves: MCH-04
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_after_the_machines_that_need_it() {
    let (here, _driver) = with_secret().await;
    let secrets = here.resources::<Secret>();
    // Somebody who writes the whole of it takes the hold away only for a moment.
    here.edit("keys", |it: &mut Secret| {
        let metadata = it.metadata.as_mut().expect("metadata");
        metadata.finalizers = vec!["example.com/own".into()];
    })
    .await;
    here.world.until(&at("keys"), is_held).await;
    here.edit("keys", |it: &mut Secret| {
        let metadata = it.metadata.as_mut().expect("metadata");
        metadata.finalizers.retain(|it| it != "example.com/own");
    })
    .await;
    assert!(secrets.delete(&at("other")).await.is_ok(), "nobody needs it");
    here.world.until_gone::<Secret>(&at("other")).await;
    secrets.delete(&at("keys")).await.expect("asked for");
    here.resources::<MachineClass>().delete(&at("small")).await.expect("asked for");
    assert!(secrets.find(&at("keys")).await.expect("readable").is_some(), "it waits");
    here.resources::<MachineDeployment>().delete(&at("pool")).await.expect("asked for");
    here.world.until_gone::<Secret>(&at("keys")).await;
    assert!(here.cloud.names().is_empty(), "the machines went first");
    here.world.until_gone::<MachineClass>(&at("small")).await;
}

/// proves: MCH-04
#[tokio::test(flavor = "multi_thread")]
async fn a_project_with_machines_goes_and_leaves_none_at_the_provider() {
    let (here, _driver) = with_secret().await;
    let project = ObjectName::new("", PROJECT);
    here.resources::<Project>().delete(&project).await.expect("asked for");
    here.world.until_gone::<Project>(&project).await;
    assert!(here.cloud.names().is_empty(), "nothing runs on at the provider");
}

/// proves: MCH-07
#[tokio::test(flavor = "multi_thread")]
async fn a_class_in_use_stays_and_machines_follow_its_changes() {
    let here = Installation::start().await;
    here.class("small", of("Cloud")).await;
    let _driver = here.driver("Cloud");
    here.deployment(3, "small").await;
    here.until_complete(3).await;
    let before = here.cloud.names();
    here.edit("small", |it: &mut MachineClass| {
        it.spec.as_mut().expect("a spec").provider_spec = Some(<_>::default());
    })
    .await;
    let sets = here.resources::<MachineSet>();
    let begun = tokio::time::timeout(orrery_testkit::world::SOON, async {
        while sets.list(<_>::default()).await.expect("a list").len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    begun.await.expect("a set for the new revision");
    here.until_complete(3).await;
    let after = here.cloud.names();
    assert!(after.len() == 3 && before.iter().all(|name| !after.contains(name)), "{after:?}");

    here.resources::<MachineClass>().delete(&at("small")).await.expect("asked for");
    let in_use = |it: &MachineClass| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.message.contains("machinedeployment/pool"))
    };
    here.world.until(&at("small"), in_use).await;
    here.resources::<MachineDeployment>().delete(&at("pool")).await.expect("asked for");
    here.world.until_gone::<MachineClass>(&at("small")).await;
    assert!(here.cloud.names().is_empty(), "the machines went first");
}

//! Orphan collection in the hub: what the provider has and nobody here knows.
use super::refs::{class_key, meta, reference};
use super::views::Views;
use super::{HubClock, freeze, unavailable};
use crate::controller::orphans::{OrphanTiming, OrphanWorld, Seen, sweep};
use crate::controller::{Next, Provider, WorldError};
use crate::drivers::{DriverKey, Target};
use crate::plan::Reason;
use crate::plan::orphans::Known;
use async_trait::async_trait;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Error, Hub, ListOptions, ObjectName, Resources};
use orrery_proto::infra::v1::{Machine, MachineClass};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub struct Orphans {
    hub: Hub,
    machines: Resources<Machine>,
    views: Arc<Views>,
    recorder: Recorder,
    key: DriverKey,
    timing: OrphanTiming,
}

impl Orphans {
    pub fn new(
        hub: &Hub,
        views: Arc<Views>,
        key: DriverKey,
        timing: OrphanTiming,
    ) -> Result<Self, Error> {
        let recorder = Recorder::new(hub, "machine-orphans")?;
        Ok(Self { hub: hub.clone(), machines: hub.resources()?, views, recorder, key, timing })
    }

    /// Looks at one class after the other, for as long as this server speaks for the driver.
    pub async fn run(
        self,
        provider: Arc<dyn Provider>,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let clock = HubClock(self.hub.clock().clone());
        let (mut seen, mut wait) = (Seen::new(), self.timing.first_look);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            for target in self.targets() {
                let looked = tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    looked = sweep(&self, &*provider, &clock, &target, &self.timing, &mut seen) => looked,
                };
                match looked {
                    Ok(Next::After(next)) => wait = next,
                    Ok(Next::AwaitChange | Next::Now) => {}
                    Err(error) => tracing::warn!(%error, "cannot look for orphans"),
                }
            }
        }
    }

    fn targets(&self) -> Vec<Target> {
        let classes = self.views.classes.all().into_iter();
        let of_key =
            classes.filter(|(_, it)| it.spec.as_ref().map(class_key).as_ref() == Some(&self.key));
        let target = |(name, class): (ObjectName, Arc<MachineClass>)| Target {
            key: self.key.clone(),
            class: super::sources::class_path(self.hub.scheme(), &name.project, &name.name),
            class_revision: meta(&class.metadata).generation,
        };
        of_key.map(target).collect()
    }

    fn class(&self, target: &Target) -> Option<(ObjectName, Arc<MachineClass>)> {
        let path = |name: &ObjectName| {
            super::sources::class_path(self.hub.scheme(), &name.project, &name.name)
        };
        self.views.classes.all().into_iter().find(|(name, _)| path(name) == target.class)
    }
}

#[async_trait]
impl OrphanWorld for Orphans {
    async fn known(&self) -> Result<Known, WorldError> {
        let machines = self.machines.list(ListOptions::default()).await.map_err(unavailable)?;
        let mut known = Known::default();
        for machine in machines {
            let metadata = meta(&machine.metadata);
            known.names.insert(metadata.name.clone());
            known.idempotency_keys.insert(metadata.uid.clone());
            let id = machine.status.map(|status| status.provider_id).unwrap_or_default();
            if !id.is_empty() {
                known.provider_ids.insert(id);
            }
        }
        Ok(known)
    }

    async fn frozen(&self, target: &Target) -> Result<bool, WorldError> {
        let Some((name, _)) = self.class(target) else { return Ok(true) };
        let deployments = self.views.deployments.all();
        let by_deployment = deployments.iter().any(|(at, it)| {
            let spec = it.spec.clone().unwrap_or_default();
            let names = spec.template.is_some_and(|template| template.class() == name.name);
            at.project == name.project && names && spec.frozen.unwrap_or_default()
        });
        Ok(by_deployment || freeze::is_frozen(&self.views.projects, &name.project, None, None))
    }

    async fn tell(&self, target: &Target, reason: &Reason) -> Result<(), WorldError> {
        let Some((_, class)) = self.class(target) else { return Ok(()) };
        let regarding = reference(&class.api_version, &class.kind, meta(&class.metadata));
        let (severity, message) = (Severity::Warning, reason.message.clone());
        self.recorder.record(Happening { regarding, severity, reason: reason.code, message }).await;
        Ok(())
    }
}

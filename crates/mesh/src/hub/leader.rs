//! What one server does for all: what became of declarations, and proxies whose server is gone.
use super::status::{self, Known};
use super::watches::key;
use super::{Mesh, fleet};
use crate::catalog::{Catalog as _, ProviderStatus};
use crate::declared::{Findings, Subject};
use crate::names::{Destination, ServiceName};
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::mesh::v1::{MeshService, Proxy};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::smi::specs::v1alpha4::UdpRoute;
use orrery_proto::smi::split::v1alpha4::TrafficSplit;
use orrery_proto::smi::{self, access::v1alpha4::TrafficTarget};
use orrery_runtime::{OnEnd, Tasks};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often is looked. A status is for people; what proxies get never waits for it.
const ROUND: Duration = Duration::from_millis(500);
/// Even where nothing was announced: a status that could not be written is written again.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// How long the proxies of a server that ended have to come back before they count as gone.
const RETURN_GRACE: Duration = Duration::from_secs(10);

/// The name of the lease by which a server is known to be there.
pub type LeaseOf = fn(&str) -> String;

/// Starts what only the leader does, on a hub that is fenced by its lease.
pub fn spawn(
    hub: &Hub,
    mesh: Arc<Mesh>,
    lease_of: LeaseOf,
    tasks: &mut Tasks,
) -> Result<(), Error> {
    let writer = Writer {
        services: hub.resources()?,
        splits: hub.resources()?,
        targets: hub.resources()?,
        udp_routes: hub.resources()?,
        clock: hub.clock().clone(),
        mesh: mesh.clone(),
    };
    super::sidecars::spawn_leader(hub, &mesh, tasks)?;
    let sweep = Sweep { hub: hub.clone(), proxies: hub.resources()?, mesh, lease_of };
    tasks.spawn("mesh-status", OnEnd::StopAll, writer.run(tasks.stop_token()));
    tasks.spawn("mesh-sweep", OnEnd::StopAll, sweep.run(tasks.stop_token()));
    Ok(())
}

struct Writer {
    services: Resources<MeshService>,
    splits: Resources<TrafficSplit>,
    targets: Resources<TrafficTarget>,
    udp_routes: Resources<UdpRoute>,
    clock: Arc<dyn Clock>,
    mesh: Arc<Mesh>,
}

impl Writer {
    async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut heard = self.mesh.catalog.announcements();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(ROUND) => {}
            }
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "cannot write what became of a declaration, will try again");
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = heard.next() => {}
                () = self.mesh.sidecars.told() => {}
                () = tokio::time::sleep(ROUND_MAX) => {}
            }
        }
    }

    /// Writes every status that is not what it should be.
    async fn round(&self) -> Result<(), Error> {
        let findings = self.mesh.findings();
        let providers = self.mesh.catalog.list_providers();
        let views = &self.mesh.views;
        for (name, service) in views.services.all() {
            let status = self.of_service(&name, &service, &findings, &providers);
            if service.status.as_ref() != Some(&status) {
                let next = MeshService { status: Some(status), ..MeshService::default() };
                let next = MeshService { metadata: named(&name), ..next };
                ignore_gone(self.services.write_status(&next).await.map(|_| ()))?;
            }
        }
        self.round_of_declarations(&findings).await
    }

    async fn round_of_declarations(&self, findings: &Findings) -> Result<(), Error> {
        let views = &self.mesh.views;
        for (name, split) in views.splits.all() {
            let found = of(findings, &Subject::Split(name.clone()));
            if let Some(status) = self.declared(&split.metadata, &split.status, found) {
                let next = TrafficSplit { status: Some(status), ..TrafficSplit::default() };
                let next = TrafficSplit { metadata: named(&name), ..next };
                ignore_gone(self.splits.write_status(&next).await.map(|_| ()))?;
            }
        }
        for (name, target) in views.targets.all() {
            let found = of(findings, &Subject::Target(name.clone()));
            if let Some(status) = self.declared(&target.metadata, &target.status, found) {
                let next = TrafficTarget { status: Some(status), ..TrafficTarget::default() };
                let next = TrafficTarget { metadata: named(&name), ..next };
                ignore_gone(self.targets.write_status(&next).await.map(|_| ()))?;
            }
        }
        for (name, route) in views.udp_routes.all() {
            let found = of(findings, &Subject::UdpRoute(name.clone()));
            if let Some(status) = self.declared(&route.metadata, &route.status, found) {
                let next = UdpRoute { status: Some(status), ..UdpRoute::default() };
                let next = UdpRoute { metadata: named(&name), ..next };
                ignore_gone(self.udp_routes.write_status(&next).await.map(|_| ()))?;
            }
        }
        Ok(())
    }

    /// What became of a declaration, where that is not what it says already.
    fn declared(
        &self,
        metadata: &Option<ObjectMeta>,
        old: &Option<smi::Status>,
        findings: &[String],
    ) -> Option<smi::Status> {
        let status = status::of_declaration(metadata, old, findings, self.clock.now());
        (old.as_ref() != Some(&status)).then_some(status)
    }

    fn of_service(
        &self,
        name: &ObjectName,
        service: &MeshService,
        findings: &Findings,
        providers: &[ProviderStatus],
    ) -> orrery_proto::mesh::v1::MeshServiceStatus {
        let of = |findings| of(findings, &Subject::Service(name.clone()));
        let Ok(service_name) = ServiceName::new(&name.project, &name.name) else {
            let known = Known { findings: of(findings), ..Known::default() };
            return status::of_service(service, &known, self.clock.now());
        };
        let stale = providers.iter().filter_map(|provider| {
            let why = provider.stale.get(&service_name)?;
            Some(format!("{}: {why}", provider.name))
        });
        let first = Destination::first(&service_name);
        let known = Known {
            endpoints: self.mesh.catalog.endpoints_of(&first).len(),
            proxies: self.mesh.views.proxies.indexed(&key(&name.project, &name.name)).len(),
            findings: of(findings),
            stale: &stale.collect::<Vec<_>>(),
            sidecars: fleet::sidecars(&self.mesh, name, service),
        };
        status::of_service(service, &known, self.clock.now())
    }
}

/// Takes away proxies whose server ended and that did not come back.
struct Sweep {
    hub: Hub,
    proxies: Resources<Proxy>,
    mesh: Arc<Mesh>,
    lease_of: LeaseOf,
}

impl Sweep {
    async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        // Since when a proxy has no server any more.
        let mut orphans: HashMap<(ObjectName, String), Instant> = HashMap::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(ROUND_MAX) => {}
            }
            let found = match self.orphaned().await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "cannot see which servers there are");
                    continue;
                }
            };
            orphans.retain(|orphan, _| found.contains(orphan));
            for orphan in found {
                let since = *orphans.entry(orphan.clone()).or_insert_with(Instant::now);
                if RETURN_GRACE <= since.elapsed()
                    && let Err(error) = self.proxies.delete(&orphan.0).await
                {
                    tracing::warn!(proxy = %orphan.0, %error, "cannot take a proxy away");
                }
            }
        }
    }

    async fn orphaned(&self) -> Result<Vec<(ObjectName, String)>, Error> {
        let mut held: HashMap<String, bool> = HashMap::new();
        let mut orphaned = Vec::new();
        for (name, proxy) in self.mesh.views.proxies.all() {
            let server =
                proxy.spec.as_ref().map(|spec| spec.server().to_owned()).unwrap_or_default();
            if !held.contains_key(&server) {
                let there = self.hub.is_held(&(self.lease_of)(&server)).await?;
                held.insert(server.clone(), there);
            }
            if held.get(&server) == Some(&false) {
                orphaned.push((name, server));
            }
        }
        Ok(orphaned)
    }
}

fn of<'a>(findings: &'a Findings, subject: &Subject) -> &'a [String] {
    findings.get(subject).map(Vec::as_slice).unwrap_or_default()
}

fn named(name: &ObjectName) -> Option<ObjectMeta> {
    let (name, project) = (name.name.clone(), name.project.clone());
    Some(ObjectMeta { name, project, ..ObjectMeta::default() })
}

/// What is gone already needs no status.
fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
        other => other,
    }
}

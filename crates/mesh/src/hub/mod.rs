//! The mesh of one server: what is declared in the hub and runs in the fleet, told to the proxies that
//! are connected here, and what they say written back.
//!
//! ```text
//!   MeshService, Revocation, ... ──reflectors─> Topologist ─> MemoryTopology ─┐
//!   WorkloadInstance, Node ────────reflectors─> FleetProvider ─────────────────┼─> catalog ─> control
//!   Proxy (of other servers) ──────reflector──> AnnouncedProvider ─────────────┘                │
//!   Proxy (ours) <────────────── ProxyWriter <──────────────────────────────────────────────────┘
//!   status of services, splits, targets <── the leader (`leader`)
//!   Workload, Secret of sidecars <───────── the leader (`sidecars`)
//! ```
//! Everything else of this crate does without the hub; only this module knows it.
mod announced;
mod azure;
mod certificates;
mod fleet;
mod kubernetes;
pub mod leader;
mod proxies;
mod sidecars;
mod status;
mod topologist;
mod watches;

pub use azure::HubBindings;
pub use certificates::{IssuedCertificate, IssuedSecrets, Issuer};
pub use sidecars::{SidecarIssuer, SidecarTrust};

use crate::catalog::{Catalog as _, CatalogParts, ServiceCatalog};
use crate::control::{Control, Options};
use crate::declared::{self, Findings};
use crate::providers::EndpointsProvider;
use crate::secrets::{MemorySecrets, SecretsProvider};
use crate::topology::MemoryTopology;
use announced::AnnouncedProvider;
use fleet::FleetProvider;
use orrery_api::SchemeBuilder;
use orrery_hub::{Error, Hub};
use orrery_runtime::{OnEnd, Tasks};
use proxies::ProxyWriter;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;
use topologist::Topologist;
use watches::{Views, Watches};

pub use kubernetes::KubernetesSource;
pub use topologist::Source;

/// What a server's mesh is made of, beside the hub.
#[derive(Default)]
pub struct MeshOptions {
    pub control: Options,
    /// Who issues the certificates of proxies; without one there are none.
    pub issuer: Option<Arc<dyn Issuer>>,
    /// What sidecars must show to the servers.
    pub sidecars: SidecarTrust,
    /// Other places where things are declared.
    pub sources: Vec<Arc<dyn Source>>,
    /// Other places where instances are.
    pub providers: Vec<Arc<dyn EndpointsProvider>>,
}

/// See the module.
pub struct Mesh {
    pub control: Arc<Control>,
    catalog: Arc<ServiceCatalog>,
    views: Views,
    findings: watch::Receiver<Findings>,
    sidecars: Arc<sidecars::Shared>,
    /// Whether proxies get certificates here.
    issues: bool,
    trust: SidecarTrust,
}

impl Mesh {
    /// Adds what the kinds of the mesh must be like.
    pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
        let builder = crate::smi::register(builder);
        builder
            .validator("orrery.mesh.v1.MeshService", declared::validate_service)
            .validator("orrery.mesh.v1.MeshService", sidecars::validate)
    }

    /// Starts what every server does. `server` is this server's id.
    pub fn spawn(
        hub: &Hub,
        server: &str,
        options: MeshOptions,
        tasks: &mut Tasks,
    ) -> Result<Arc<Self>, Error> {
        let mut watches = Watches::new(hub)?;
        let sidecars = Arc::new(sidecars::Shared::default());
        let fleet = Arc::new(FleetProvider::new(&mut watches, sidecars.clone()));
        let announced = Arc::new(AnnouncedProvider::new(&mut watches, server));
        let mut providers: Vec<Arc<dyn EndpointsProvider>> = vec![fleet, announced];
        providers.extend(options.providers);
        let topology = Arc::new(MemoryTopology::default());
        let (issues, trust) = (options.issuer.is_some(), options.sidecars);
        let secrets = secrets(options.issuer, tasks);
        let parts = CatalogParts { topology: topology.clone(), providers, secrets };
        let catalog = ServiceCatalog::new(parts);
        let (control, publisher) = Control::new(catalog.clone(), options.control);
        let (findings_tx, findings) = watch::channel(Findings::default());
        let views = watches.views();
        let topologist = Topologist {
            views: views.clone(),
            sources: options.sources,
            changed: watches.changed(),
            topology,
            findings: findings_tx,
        };
        let stop = tasks.stop_token();
        let synced = watches.synced();
        watches.spawn(tasks);
        let (running, ending) = (catalog.clone(), stop.clone());
        tasks.spawn("mesh-catalog", OnEnd::StopAll, async move {
            topologist.run(synced, running, ending).await;
            Ok::<(), Infallible>(())
        });
        let publishing = publisher.run(stop.clone());
        tasks.spawn("mesh-publisher", OnEnd::StopAll, async move {
            publishing.await;
            Ok::<(), Infallible>(())
        });
        let writer = ProxyWriter::new(hub, control.clone(), server)?;
        tasks.spawn("mesh-proxies", OnEnd::StopAll, writer.run(stop));
        Ok(Arc::new(Self { control, catalog, views, findings, sidecars, issues, trust }))
    }

    /// What has no effect: of what was read, and of how it fits together.
    fn findings(&self) -> Findings {
        let read = self.findings.borrow().clone();
        status::with_problems(read, &self.catalog.declared().problems())
    }
}

fn secrets(issuer: Option<Arc<dyn Issuer>>, tasks: &mut Tasks) -> Arc<dyn SecretsProvider> {
    let Some(issuer) = issuer else { return Arc::new(MemorySecrets::default()) };
    let secrets = Arc::new(IssuedSecrets::new(issuer));
    let renewing = secrets.clone().renew(tasks.stop_token());
    tasks.spawn("mesh-certificates", OnEnd::StopAll, async move {
        renewing.await;
        Ok::<(), Infallible>(())
    });
    secrets
}

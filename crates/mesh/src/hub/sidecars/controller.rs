//! The controller that the leader runs: thin, it asks the plan and does what that says.
use super::identity::{self, SidecarTrust};
use super::names::{self, has_sidecar, is_going, meta};
use super::obstacle::{self, Fronted, Obstacle};
use super::owned::{self, Declared};
use super::plan;
use crate::hub::Mesh;
use crate::hub::watches::workload_of;
use crate::names::{ProxyName, ServiceName};
use async_trait::async_trait;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Secret;
use orrery_proto::mesh::v1::MeshService;
use orrery_runtime::{Next, Reconciler, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// After someone else was faster.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// While a project goes, and where what stands in the way is somebody else's, of which nothing is heard when it goes.
const LOOK_LATER: Duration = Duration::from_secs(5);
/// How often certificates are looked at, so that none ends unnoticed when clocks are put right.
const CERTIFICATE_ROUND: Duration = Duration::from_secs(600);

/// What the leader's own watches have told.
#[derive(Clone)]
pub struct Views {
    pub services: Arc<View<MeshService>>,
    /// Those that were made here.
    pub made: Arc<View<Workload>>,
}

pub struct SidecarReconciler {
    services: Resources<MeshService>,
    workloads: Resources<Workload>,
    secrets: Resources<Secret>,
    views: Views,
    mesh: Arc<Mesh>,
    clock: Arc<dyn Clock>,
}

/// What was found out about the sidecars of a service.
struct Found {
    obstacle: Option<Obstacle>,
    next: Next,
}

impl Found {
    fn obstacle(reason: &'static str, message: String) -> Self {
        let next = Next::After(LOOK_LATER);
        Self { obstacle: Some(Obstacle::new(reason, message)), next }
    }
}

impl SidecarReconciler {
    pub fn new(hub: &Hub, mesh: Arc<Mesh>, views: Views) -> Result<Self, Error> {
        Ok(Self {
            services: hub.resources()?,
            workloads: hub.resources()?,
            secrets: hub.resources()?,
            views,
            mesh,
            clock: hub.clock().clone(),
        })
    }

    async fn settle(&self, key: &ObjectName) -> Result<Next, Error> {
        let known = self.views.services.get(key);
        let made = self.views.made.get(&of(key)).is_some();
        if known.is_some_and(|known| !has_sidecar(&known)) && !made {
            // As most services are: nothing is asked for, and nothing is there.
            self.mesh.sidecars.set(key, None);
            return Ok(Next::AwaitChange);
        }
        let service = self.services.find(key).await?;
        let Some(service) = service.filter(|service| !is_going(&service.metadata)) else {
            // What belongs to it goes with it.
            self.mesh.sidecars.set(key, None);
            return Ok(Next::AwaitChange);
        };
        if !has_sidecar(&service) {
            let uid = &meta(&service.metadata).uid;
            owned::remove(&self.workloads, &of(key), uid).await?;
            owned::remove(&self.secrets, &of(key), uid).await?;
            self.mesh.sidecars.set(key, None);
            return Ok(Next::AwaitChange);
        }
        let found = self.declare(key, &service).await?;
        self.mesh.sidecars.set(key, found.obstacle);
        Ok(found.next)
    }

    async fn declare(&self, key: &ObjectName, service: &MeshService) -> Result<Found, Error> {
        let uid = &meta(&service.metadata).uid;
        let own = self.fronted(key, service);
        let all = self.views.services.all();
        let others = all.iter().filter(|(name, other)| name != key && has_sidecar(other));
        let others: Vec<_> = others.map(|(name, other)| self.fronted(name, other)).collect();
        if let Some(taken) = obstacle::port_taken(&own, &others) {
            // It would take the traffic of the other, or the other its.
            owned::remove(&self.workloads, &of(key), uid).await?;
            return Ok(Found { obstacle: Some(taken), next: Next::AwaitChange });
        }
        let encrypted = service.spec.as_ref().is_some_and(|spec| spec.encrypted());
        if encrypted && !self.mesh.issues {
            let why = "the service is encrypted, and the server has no key of an authority to give \
                       proxies certificates: start it with --tls, or with --mesh-authority";
            return Ok(Found::obstacle("NoAuthority", why.to_owned()));
        }
        let (next, servers) = match &self.mesh.trust {
            SidecarTrust::Plain => (Next::AwaitChange, None),
            SidecarTrust::Proven { issuer, servers } => {
                match self.identity(key, service, &**issuer).await? {
                    Ok(good_for) => (Next::After(good_for), Some(servers.as_str())),
                    Err(found) => return Ok(found),
                }
            }
        };
        let workload = match plan::workload(key, service, servers) {
            Ok(workload) => workload,
            Err(why) => return Ok(Found::obstacle("Refused", why)),
        };
        Ok(match owned::declare(&self.workloads, &workload, uid).await? {
            Declared::Is(..) => Found { obstacle: obstacle::several_copies(&own), next },
            Declared::Going => Found { obstacle: None, next: Next::After(LOOK_AGAIN) },
            Declared::Taken => Found::obstacle("NameTaken", taken("workload", key)),
            Declared::Refused(why) => Found::obstacle("Refused", why),
        })
    }

    /// Keeps what sidecars show to the servers good; tells when to look again, or what stands in the way.
    async fn identity(
        &self,
        key: &ObjectName,
        service: &MeshService,
        issuer: &dyn identity::SidecarIssuer,
    ) -> Result<Result<Duration, Found>, Error> {
        let no_authority = |why: String| Found::obstacle("NoAuthority", why);
        let name = match ServiceName::new(&key.project, &key.name) {
            Ok(name) => ProxyName::of(&name),
            Err(error) => return Ok(Err(Found::obstacle("Refused", error.to_string()))),
        };
        let roots = match issuer.roots() {
            Ok(roots) => roots,
            Err(why) => return Ok(Err(no_authority(why))),
        };
        let uid = &meta(&service.metadata).uid;
        let there = self.secrets.find(&of(key)).await?;
        let ours = there.filter(|secret| names::belongs_to(&secret.metadata, uid));
        let good = ours.and_then(|secret| identity::good_for(&secret, &roots, &name, self.now()));
        if let Some(good) = good {
            return Ok(Ok(good.min(CERTIFICATE_ROUND)));
        }
        let issued = match issuer.issue(&name) {
            Ok(issued) => issued,
            Err(why) => return Ok(Err(no_authority(why))),
        };
        let secret = identity::secret(plan::metadata(key, service), issued);
        Ok(match owned::declare(&self.secrets, &secret, uid).await? {
            Declared::Is(..) => Ok(CERTIFICATE_ROUND),
            Declared::Going => Err(Found { obstacle: None, next: Next::After(LOOK_AGAIN) }),
            Declared::Taken => Err(Found::obstacle("NameTaken", taken("secret", key))),
            Declared::Refused(why) => Err(Found::obstacle("Refused", why)),
        })
    }

    fn fronted<'a>(&self, name: &'a ObjectName, service: &'a MeshService) -> Fronted<'a> {
        let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
        for (_, copy) in self.mesh.views.instances.indexed(&workload_of(name, service)) {
            let node = copy.spec.as_ref().map(|spec| spec.node().to_owned()).unwrap_or_default();
            *nodes.entry(node).or_default() += usize::from(!is_going(&copy.metadata));
        }
        Fronted { name, service, nodes }
    }

    fn now(&self) -> SystemTime {
        let seconds = u64::try_from(self.clock.now().seconds).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }
}

/// The workload and the secret of a service's sidecars.
fn of(service: &ObjectName) -> ObjectName {
    ObjectName::new(&service.project, names::name_of(&service.name))
}

fn taken(kind: &str, service: &ObjectName) -> String {
    let name = names::name_of(&service.name);
    format!(
        "there is a {kind} {name:?} already that is not the service's: delete it, or give the service another name"
    )
}

#[async_trait]
impl Reconciler<ObjectName> for SidecarReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        match self.settle(key).await {
            Err(Error::Conflict { .. } | Error::AlreadyExists { .. } | Error::NotFound { .. }) => {
                Ok(Next::After(LOOK_AGAIN))
            }
            Err(
                Error::ProjectTerminating { .. }
                | Error::ProjectNotFound { .. }
                | Error::BeingDeleted { .. },
            ) => Ok(Next::After(LOOK_LATER)),
            other => other,
        }
    }
}

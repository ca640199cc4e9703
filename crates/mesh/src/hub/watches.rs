//! What is watched in the hub.
use crate::declared::{self, Declarations};
use crate::topology::Revoked;
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::core::v1::Revocation;
use orrery_proto::infra::v1::Node;
use orrery_proto::mesh::v1::{MeshService, Proxy};
use orrery_proto::smi::access::v1alpha4::{IdentityBinding, TrafficTarget};
use orrery_proto::smi::specs::v1alpha4::{HttpRouteGroup, TcpRoute, UdpRoute};
use orrery_proto::smi::split::v1alpha4::TrafficSplit;
use orrery_runtime::{OnEnd, Reflector, Tasks, View};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// One watch per kind.
pub struct Watches {
    pub services: Reflector<MeshService>,
    /// By the workload they are copies of.
    pub instances: Reflector<WorkloadInstance>,
    pub nodes: Reflector<Node>,
    pub proxies: Reflector<Proxy>,
    splits: Reflector<TrafficSplit>,
    targets: Reflector<TrafficTarget>,
    bindings: Reflector<IdentityBinding>,
    http_routes: Reflector<HttpRouteGroup>,
    tcp_routes: Reflector<TcpRoute>,
    udp_routes: Reflector<UdpRoute>,
    revocations: Reflector<Revocation>,
    changed: Arc<Notify>,
}

/// What the watches have told.
#[derive(Clone)]
pub struct Views {
    /// By the workload that serves them.
    pub services: Arc<View<MeshService>>,
    /// By the workload they are copies of.
    pub instances: Arc<View<WorkloadInstance>>,
    /// By the service they front.
    pub proxies: Arc<View<Proxy>>,
    pub splits: Arc<View<TrafficSplit>>,
    pub targets: Arc<View<TrafficTarget>>,
    bindings: Arc<View<IdentityBinding>>,
    http_routes: Arc<View<HttpRouteGroup>>,
    tcp_routes: Arc<View<TcpRoute>>,
    pub udp_routes: Arc<View<UdpRoute>>,
    revocations: Arc<View<Revocation>>,
}

/// The key of the indexes: a name within a project.
pub fn key(project: &str, name: &str) -> String {
    format!("{project}/{name}")
}

/// The workload that serves a service.
pub fn workload_of(name: &ObjectName, service: &MeshService) -> String {
    let workload = service.spec.as_ref().and_then(|spec| spec.workload.as_deref());
    key(&name.project, workload.unwrap_or(&name.name))
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        let by_workload = |name: &ObjectName, one: &WorkloadInstance| {
            Some(key(&name.project, one.spec.as_ref()?.workload()))
        };
        let by_service =
            |name: &ObjectName, one: &Proxy| Some(key(&name.project, one.spec.as_ref()?.service()));
        let mut watches = Self {
            services: Reflector::indexed(hub.resources()?, |name, one| {
                Some(workload_of(name, one))
            }),
            instances: Reflector::indexed(hub.resources()?, by_workload),
            nodes: Reflector::new(hub.resources()?),
            proxies: Reflector::indexed(hub.resources()?, by_service),
            splits: Reflector::new(hub.resources()?),
            targets: Reflector::new(hub.resources()?),
            bindings: Reflector::new(hub.resources()?),
            http_routes: Reflector::new(hub.resources()?),
            tcp_routes: Reflector::new(hub.resources()?),
            udp_routes: Reflector::new(hub.resources()?),
            revocations: Reflector::new(hub.resources()?),
            changed: Arc::new(Notify::new()),
        };
        let changed = watches.changed.clone();
        wake(&mut watches.services, &changed);
        wake(&mut watches.splits, &changed);
        wake(&mut watches.targets, &changed);
        wake(&mut watches.bindings, &changed);
        wake(&mut watches.http_routes, &changed);
        wake(&mut watches.tcp_routes, &changed);
        wake(&mut watches.udp_routes, &changed);
        wake(&mut watches.revocations, &changed);
        Ok(watches)
    }

    pub fn views(&self) -> Views {
        Views {
            services: self.services.view(),
            instances: self.instances.view(),
            proxies: self.proxies.view(),
            splits: self.splits.view(),
            targets: self.targets.view(),
            bindings: self.bindings.view(),
            http_routes: self.http_routes.view(),
            tcp_routes: self.tcp_routes.view(),
            udp_routes: self.udp_routes.view(),
            revocations: self.revocations.view(),
        }
    }

    /// Woken whenever something is declared differently.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    pub fn synced(&self) -> Vec<watch::Receiver<bool>> {
        vec![
            self.services.synced(),
            self.instances.synced(),
            self.nodes.synced(),
            self.proxies.synced(),
            self.splits.synced(),
            self.targets.synced(),
            self.bindings.synced(),
            self.http_routes.synced(),
            self.tcp_routes.synced(),
            self.udp_routes.synced(),
            self.revocations.synced(),
        ]
    }

    pub fn spawn(self, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        tasks.spawn("mesh-services", OnEnd::StopAll, self.services.run(stop.clone()));
        tasks.spawn("mesh-instances", OnEnd::StopAll, self.instances.run(stop.clone()));
        tasks.spawn("mesh-nodes", OnEnd::StopAll, self.nodes.run(stop.clone()));
        tasks.spawn("mesh-proxy-watch", OnEnd::StopAll, self.proxies.run(stop.clone()));
        tasks.spawn("mesh-splits", OnEnd::StopAll, self.splits.run(stop.clone()));
        tasks.spawn("mesh-targets", OnEnd::StopAll, self.targets.run(stop.clone()));
        tasks.spawn("mesh-bindings", OnEnd::StopAll, self.bindings.run(stop.clone()));
        tasks.spawn("mesh-http-routes", OnEnd::StopAll, self.http_routes.run(stop.clone()));
        tasks.spawn("mesh-tcp-routes", OnEnd::StopAll, self.tcp_routes.run(stop.clone()));
        tasks.spawn("mesh-udp-routes", OnEnd::StopAll, self.udp_routes.run(stop.clone()));
        tasks.spawn("mesh-revocations", OnEnd::StopAll, self.revocations.run(stop));
    }
}

impl Views {
    /// The proxies that are disabled.
    pub fn revoked(&self) -> Revoked {
        let all = self.revocations.all();
        all.into_iter().filter_map(|(_, one)| declared::revoked(&one)).collect()
    }

    pub fn declarations(&self) -> Declarations {
        fn all<T>(view: &View<T>) -> std::collections::BTreeMap<ObjectName, Arc<T>> {
            view.all().into_iter().collect()
        }
        Declarations {
            services: all(&self.services),
            splits: all(&self.splits),
            targets: all(&self.targets),
            bindings: all(&self.bindings),
            http_routes: all(&self.http_routes),
            tcp_routes: all(&self.tcp_routes),
            udp_routes: all(&self.udp_routes),
        }
    }
}

fn wake<T: prost::Message + prost::Name + Default>(
    reflector: &mut Reflector<T>,
    changed: &Arc<Notify>,
) {
    let changed = changed.clone();
    reflector.on_change(move |_| changed.notify_one());
}

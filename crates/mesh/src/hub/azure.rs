//! AzureResource objects of the hub, for the providers that look the machines up.
use super::watches::key;
use crate::address::Port;
use crate::announce::{Announcements, Announcer};
use crate::names::{PortName, ServiceName};
use crate::providers::azure::{Binding, Bindings};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::mesh::v1::{AzureResource, AzureResourceSpec};
use orrery_runtime::{OnEnd, Reflector, Tasks, View};
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct HubBindings {
    /// By the service they are for.
    resources: Arc<View<AzureResource>>,
    announcer: Announcer<ServiceName>,
}

impl HubBindings {
    /// Starts to follow the hub.
    pub fn spawn(hub: &Hub, tasks: &mut Tasks) -> Result<Arc<Self>, Error> {
        let by_service = |name: &ObjectName, one: &AzureResource| {
            Some(key(&name.project, one.spec.as_ref()?.service()))
        };
        let mut reflector = Reflector::<AzureResource>::indexed(hub.resources()?, by_service);
        let bindings = Self { resources: reflector.view(), announcer: Announcer::default() };
        let announcer = bindings.announcer.clone();
        reflector.on_change(move |change| {
            let both = [&change.old, &change.new].into_iter().flatten();
            announcer.announce(both.filter_map(|one| service(&change.name, one)));
        });
        tasks.spawn("mesh-azure-resources", OnEnd::StopAll, reflector.run(tasks.stop_token()));
        Ok(Arc::new(bindings))
    }
}

impl Bindings for HubBindings {
    fn of(&self, provider: &str, service: &ServiceName) -> Vec<Binding> {
        let found = self.resources.indexed(&key(service.project(), service.name()));
        let specs = found.iter().filter_map(|(_, resource)| resource.spec.as_ref());
        let meant = specs.filter(|spec| spec.provider.as_ref().is_none_or(|one| one == provider));
        meant.filter_map(binding).collect()
    }

    fn services(&self) -> BTreeSet<ServiceName> {
        self.resources.all().iter().filter_map(|(name, one)| service(name, one)).collect()
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

fn binding(spec: &AzureResourceSpec) -> Option<Binding> {
    let port = Port::new(u16::try_from(spec.port()).ok()?)?;
    let name = spec.port_name.as_deref().map(PortName::from);
    Some(Binding { resource_uris: spec.resource_uris.clone(), port, name })
}

fn service(name: &ObjectName, resource: &AzureResource) -> Option<ServiceName> {
    ServiceName::new(&name.project, resource.spec.as_ref()?.service()).ok()
}

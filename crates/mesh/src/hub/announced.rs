//! Endpoints that proxies announce to other servers. Those that are connected here are in the catalog
//! already, from the moment they connect.
use super::watches::{Watches, key};
use crate::address::Endpoint;
use crate::announce::{Announcements, Announcer};
use crate::names::ServiceName;
use crate::providers::{EndpointsProvider, ProviderError};
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::Proxy;
use orrery_runtime::View;
use std::sync::Arc;

pub struct AnnouncedProvider {
    proxies: Arc<View<Proxy>>,
    server: String,
    announcer: Announcer<ServiceName>,
}

impl AnnouncedProvider {
    pub fn new(watches: &mut Watches, server: &str) -> Self {
        let announcer = Announcer::default();
        let (speaker, own) = (announcer.clone(), server.to_owned());
        watches.proxies.on_change(move |change| {
            let place = |proxy: &Option<Arc<Proxy>>| {
                proxy
                    .as_ref()
                    .and_then(|proxy| endpoint(proxy, &own))
                    .map(|found| found.to_string())
            };
            if place(&change.old) != place(&change.new) {
                let proxies = [&change.old, &change.new].into_iter().flatten();
                speaker.announce(proxies.filter_map(|proxy| service(&change.name, proxy)));
            }
        });
        Self { proxies: watches.proxies.view(), server: server.to_owned(), announcer }
    }
}

#[async_trait::async_trait]
impl EndpointsProvider for AnnouncedProvider {
    fn name(&self) -> &str {
        "announced"
    }

    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Endpoint>, ProviderError> {
        let proxies = self.proxies.indexed(&key(service.project(), service.name()));
        Ok(proxies.iter().filter_map(|(_, proxy)| endpoint(proxy, &self.server)).collect())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

/// What a proxy of another server announces.
fn endpoint(proxy: &Proxy, own: &str) -> Option<Endpoint> {
    let spec = proxy.spec.as_ref().filter(|spec| spec.server() != own)?;
    Endpoint::of(spec.endpoint().parse().ok()?)
}

fn service(name: &ObjectName, proxy: &Proxy) -> Option<ServiceName> {
    ServiceName::new(&name.project, proxy.spec.as_ref()?.service()).ok()
}

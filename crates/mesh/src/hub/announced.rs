//! Endpoints that proxies announce to other servers. Those that are connected here are in the catalog
//! already, from the moment they connect.
use super::watches::{Watches, key};
use crate::address::{Endpoint, Placed};
use crate::announce::{Announcements, Announcer};
use crate::names::{PortName, ServiceName};
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
            let places = |proxy: &Option<Arc<Proxy>>| {
                proxy.as_ref().map(|proxy| endpoints(proxy, &own)).unwrap_or_default()
            };
            if places(&change.old) != places(&change.new) {
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

    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError> {
        let proxies = self.proxies.indexed(&key(service.project(), service.name()));
        Ok(proxies.iter().flat_map(|(_, proxy)| endpoints(proxy, &self.server)).collect())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

/// What a proxy of another server announces.
fn endpoints(proxy: &Proxy, own: &str) -> Vec<Placed> {
    let Some(spec) = proxy.spec.as_ref().filter(|spec| spec.server() != own) else {
        return Vec::new();
    };
    let read = |text: &str| Endpoint::of(text.parse().ok()?);
    let first = read(spec.endpoint()).map(Placed::from);
    let further = spec.ports.iter().filter_map(|port| {
        let (endpoint, name) = (read(port.endpoint())?, PortName::from(port.port()));
        Some(Placed { endpoint, port: Some(name), is_first: false })
    });
    first.into_iter().chain(further).collect()
}

fn service(name: &ObjectName, proxy: &Proxy) -> Option<ServiceName> {
    ServiceName::new(&name.project, proxy.spec.as_ref()?.service()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::mesh::v1::{ProxyPort, ProxySpec};

    /// proves: MSH-03
    #[test]
    fn what_proxies_of_other_servers_announce_counts_for_each_port() {
        let port = |port: &str, endpoint: &str| ProxyPort {
            port: Some(port.to_owned()),
            endpoint: Some(endpoint.to_owned()),
        };
        let spec = ProxySpec {
            server: Some("other".to_owned()),
            endpoint: Some("10.0.0.1:80".to_owned()),
            ports: vec![port("5432", "10.0.0.1:15432"), port("81", "nowhere")],
            ..ProxySpec::default()
        };
        let proxy = Proxy { spec: Some(spec), ..Proxy::default() };
        let found: Vec<_> = endpoints(&proxy, "own")
            .into_iter()
            .map(|one| (one.endpoint.to_string(), one.port, one.is_first))
            .collect();
        let expect = [
            ("10.0.0.1:80".to_owned(), None, true),
            ("10.0.0.1:15432".to_owned(), Some(PortName::from("5432")), false),
        ];
        assert_eq!(found, expect);
        assert!(endpoints(&proxy, "other").is_empty(), "its own are in its catalog already");
    }
}

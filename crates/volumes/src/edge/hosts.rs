//! Channels to storage controllers, made when they are first used and kept.
use super::Problem;
use crate::proxy::Dialer;
use crate::{ControllerId, Entry, ProxyConfig, controllers};
use hyper_util::rt::TokioIo;
use orrery_hub::ObjectName;
use orrery_proto::oim::v0::controller_client::ControllerClient;
use orrery_proto::storage::v1::StorageController;
use orrery_proto::volumes::v1::pool_client::PoolClient;
use orrery_runtime::View;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tonic::transport::{Channel, Endpoint};

/// A call may copy a volume, which takes a while; a controller that is gone is noticed before.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The storage controllers that are registered, and how to speak with them.
pub struct Hosts {
    controllers: Arc<View<StorageController>>,
    dialer: Dialer,
    encrypted: bool,
    channels: Mutex<HashMap<ControllerId, (Entry, Channel)>>,
}

/// One storage controller.
pub struct Host {
    pub pool: PoolClient<Channel>,
    pub controller: ControllerClient<Channel>,
}

impl Hosts {
    pub fn new(controllers: Arc<View<StorageController>>, config: &ProxyConfig) -> Self {
        Self {
            controllers,
            encrypted: config.tls.is_some(),
            dialer: Dialer::new(config.tls.clone(), config.connect_timeout),
            channels: Mutex::default(),
        }
    }

    pub fn host(&self, id: &str) -> Result<Host, Problem> {
        let unknown = || Problem::away(id, "it is not registered");
        let id = ControllerId::parse(id).map_err(|_| unknown())?;
        let name = controllers::names::object_name(&id);
        let found = self.controllers.get(&ObjectName::new("", &name)).ok_or_else(unknown)?;
        let entry = controllers::entry(&name, &found).ok_or_else(unknown)?;
        let mut channels = self.channels.lock();
        let channel = match channels.get(&id) {
            Some((known, channel)) if *known == entry => channel.clone(),
            _ => {
                let channel = self.channel(&entry);
                channels.insert(id, (entry, channel.clone()));
                channel
            }
        };
        let (pool, controller) = (PoolClient::new(channel.clone()), ControllerClient::new(channel));
        Ok(Host { pool, controller })
    }

    /// Connects when it is first used, and again when the connection is lost. The connector does the
    /// TLS and checks whom it reached.
    fn channel(&self, entry: &Entry) -> Channel {
        let (dialer, called) = (self.dialer.clone(), entry.clone());
        let connect = tower::service_fn(move |_: http::Uri| {
            let (dialer, called) = (dialer.clone(), called.clone());
            async move { dialer.stream(&called).await.map(TokioIo::new) }
        });
        let uri = |scheme: &'static str| {
            let uri = http::Uri::builder().scheme(scheme).authority("storage-controller");
            uri.path_and_query("/").build().expect("a URI made of constants is valid")
        };
        Endpoint::from(uri("http"))
            .origin(uri(if self.encrypted { "https" } else { "http" }))
            .timeout(CALL_TIMEOUT)
            .connect_with_connector_lazy(connect)
    }
}

//! Who needs what: the streams, the shared resources, and the index between them.
//!
//! ```text
//!   Catalog ─announces─> Publisher ──endpoints of S──> Table ──> Index[S] ──> mailboxes, at once
//!                            └────── config ─coalesced─> Groups ──changed ones──> mailboxes
//!   a stream: Mailbox ─> Session::next(Table + its group's snapshot) ─> bytes shared by all
//! ```
//! A change of endpoints costs one encoding and a wake-up per stream that subscribed to the service,
//! however many services and streams there are besides.
mod groups;
mod index;
mod prepared;
mod publisher;
mod sides;
mod snapshot;
mod status;
mod stream;
mod table;

pub use publisher::Publisher;
pub use sides::{Connect, Inbound, Sides};
pub use status::ProxyStatus;
pub use stream::{Admission, StreamHandle};

use crate::announce::{Announcements, Announcer};
use crate::catalog::Catalog;
use crate::names::ServiceName;
use groups::Groups;
use index::Index;
use orrery_pki::TrustDomain;
use parking_lot::Mutex;
use prepared::Origin;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use stream::StreamState;
use table::Table;
use tokio::sync::Semaphore;

/// Streams at once. Each costs a few tens of KiB; an EDS-only Envoy opens one per cluster.
const STREAMS_MAX: usize = 10_000;
/// Config that changes in bursts (a commit, a rollout) goes out once. Endpoints never wait for it.
const CONFIG_DELAY: Duration = Duration::from_millis(50);
/// How long routes wait for clusters that they name: one that does not get warm must not keep everything back.
const WARMING_MAX: Duration = Duration::from_secs(5);
/// Where proxies listen for their own service unless they say otherwise.
const OUTBOUND_PORT: u16 = 15_001;

/// How a control plane behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Certificates of others are refused; `None` takes what the transport verified.
    pub trust_domain: Option<TrustDomain>,
    pub streams_max: usize,
    pub config_delay: Duration,
    /// How long routes wait for a proxy that is busy with new clusters.
    pub warming_max: Duration,
    pub outbound: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trust_domain: None,
            streams_max: STREAMS_MAX,
            config_delay: CONFIG_DELAY,
            warming_max: WARMING_MAX,
            outbound: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), OUTBOUND_PORT),
        }
    }
}

/// One proxy, however many streams it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyKey {
    pub service: ServiceName,
    /// As the proxy calls itself.
    pub instance: Arc<str>,
}

/// Identifies a stream within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u64);

/// There are as many streams as are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {0} streams already, which is the limit; try another replica")]
pub struct Full(pub usize);

/// See the module.
pub struct Control {
    catalog: Arc<dyn Catalog>,
    options: Options,
    table: Table,
    groups: Groups,
    index: Mutex<Index>,
    streams: Mutex<BTreeMap<StreamId, Weak<StreamState>>>,
    proxies: Mutex<HashMap<ProxyKey, BTreeSet<StreamId>>>,
    /// Names each proxy that came, went, asked, answered or was sent something.
    touched: Announcer<ProxyKey>,
    room: Arc<Semaphore>,
    next_id: AtomicU64,
}

impl Control {
    /// The publisher has to run for changes to go out.
    pub fn new(catalog: Arc<dyn Catalog>, options: Options) -> (Arc<Self>, Publisher) {
        let announcements = catalog.announcements();
        let control = Arc::new(Self {
            catalog,
            table: Table::default(),
            groups: Groups::default(),
            index: Mutex::default(),
            streams: Mutex::default(),
            proxies: Mutex::default(),
            touched: Announcer::default(),
            room: Arc::new(Semaphore::new(options.streams_max)),
            next_id: AtomicU64::new(1),
            options,
        });
        let publisher = Publisher::new(Arc::clone(&control), announcements);
        (control, publisher)
    }

    pub fn catalog(&self) -> &dyn Catalog {
        &*self.catalog
    }

    fn origin(&self) -> Origin<'_> {
        Origin { catalog: &*self.catalog, trust_domain: self.options.trust_domain.as_ref() }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Opens a stream; it is closed by dropping the handle.
    pub fn join(self: &Arc<Self>, admission: Admission) -> Result<StreamHandle, Full> {
        let full = Full(self.options.streams_max);
        let permit = Arc::clone(&self.room).try_acquire_owned().map_err(|_| full)?;
        let id = StreamId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let handle = StreamHandle::open(Arc::clone(self), id, admission, permit);
        self.streams.lock().insert(id, handle.state());
        self.proxies.lock().entry(handle.key().clone()).or_default().insert(id);
        self.touched.announce([handle.key().clone()]);
        Ok(handle)
    }

    /// Names each proxy whose status may have changed.
    pub fn touched(&self) -> Announcements<ProxyKey> {
        self.touched.listen()
    }

    /// The same for the streams of one proxy; empty when it is gone.
    pub fn status_of(&self, proxy: &ProxyKey) -> Vec<ProxyStatus> {
        let ids = self.proxies.lock().get(proxy).cloned().unwrap_or_default();
        let streams: Vec<_> = {
            let streams = self.streams.lock();
            ids.iter().filter_map(|id| streams.get(id)?.upgrade()).collect()
        };
        streams.iter().map(|stream| stream.status(self)).collect()
    }

    fn forget(&self, id: StreamId, proxy: &ProxyKey) {
        self.streams.lock().remove(&id);
        let mut proxies = self.proxies.lock();
        if let Some(ids) = proxies.get_mut(proxy) {
            ids.remove(&id);
            if ids.is_empty() {
                proxies.remove(proxy);
            }
        }
        drop(proxies);
        self.touched.announce([proxy.clone()]);
    }

    /// What is wanted, sent, acknowledged and refused, per stream.
    pub fn status(&self) -> Vec<ProxyStatus> {
        let streams: Vec<_> = self.streams.lock().values().filter_map(Weak::upgrade).collect();
        streams.iter().map(|stream| stream.status(self)).collect()
    }
}

#[cfg(test)]
mod tests;

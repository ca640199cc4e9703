//! Figures about a server, for Prometheus: `orrery_<component>_<noun>_<unit>[_total]`.
//!
//! What happens is counted where it happens; what can be looked up is looked up when somebody asks.
//! Every label has a fixed set of values, so that no client can make the set of figures grow.
pub mod classic;
mod process;
mod reading;
mod requests;
mod store;

pub use requests::{RequestMetrics, Watching};
pub use store::Measured;

use orrery_fleet::Fleet;
use orrery_fleet::commander::CommanderConnections;
use orrery_store::{Engine, Store};
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::path::PathBuf;
use std::sync::Arc;

/// The type of the text that [`Metrics::text`] makes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: RequestMetrics,
    leader: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let requests = RequestMetrics::new(&mut registry);
        let leader = Gauge::default();
        let build = Info::new([("version", crate::VERSION)]);
        registry.register("orrery_build", "The version of this server", build);
        let help = "1 on the server that does what must not be done twice, else 0";
        registry.register("orrery_server_leader", help, leader.clone());
        process::register(&mut registry);
        orrery_runtime::stats::register(&mut registry);
        let help = "Happenings not told at once, because too much happened to one resource";
        reading::counter(&mut registry, "orrery_hub_events_limited", help, || {
            u32::try_from(orrery_hub::events::limited()).ok().map(f64::from)
        });
        let help = "Happenings of copies that are not told, because too many waited";
        reading::counter(&mut registry, "orrery_fleet_events_dropped", help, || {
            u32::try_from(orrery_fleet::agents::telling::dropped()).ok().map(f64::from)
        });
        Self { registry: Mutex::new(registry), requests, leader }
    }

    pub fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// 1 while this server leads.
    pub fn leader(&self) -> &Gauge {
        &self.leader
    }

    /// Where other parts show what they count.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// An engine that counts.
    pub fn measured(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Measured::new(engine, &mut self.registry())
    }

    pub fn of_store(&self, store: &Store, folder: Option<PathBuf>) {
        store::register(&mut self.registry(), store, folder);
    }

    #[allow(clippy::cast_precision_loss, reason = "there are not that many peers")]
    pub fn of_peers(&self, fleet: &Arc<Fleet>, commanders: &CommanderConnections) {
        let fleet = fleet.clone();
        let help = "Agents that are connected to this server";
        reading::gauge(&mut self.registry(), "orrery_fleet_agents", help, move || {
            Some(fleet.senders().len() as f64)
        });
        let commanders = commanders.clone();
        let help = "Commanders that are connected to this server";
        reading::gauge(&mut self.registry(), "orrery_fleet_commanders", help, move || {
            Some(commanders.len() as f64)
        });
    }

    /// All figures as they are now.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry())?;
        Ok(text)
    }
}

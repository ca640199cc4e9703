//! What every server does for the drivers that are connected to it.
use super::driver_objects::{Held, Publisher};
use super::joining::Authority;
use super::sources::Sources;
use super::terms::Speaker;
use super::views::{Views, Watches};
use crate::controller::orphans::OrphanTiming;
use crate::drivers::{Config, Drivers, Gate, Timing};
use orrery_hub::{Error, Hub};
use orrery_runtime::{OnEnd, Tasks, until_synced};
use std::sync::Arc;
use tokio::sync::watch;

/// What the server decides.
pub struct EdgeOptions {
    /// Which peers may register.
    pub gate: Arc<dyn Gate>,
    pub timing: Timing,
    /// This server.
    pub server: String,
    /// The name of a server's own lease, which ends with it.
    pub server_lease: fn(&str) -> String,
    /// Who signs the certificates of machines' agents.
    pub authority: Authority,
    pub orphans: OrphanTiming,
}

pub struct Edge {
    drivers: Drivers,
    views: Arc<Views>,
    synced: Vec<watch::Receiver<bool>>,
    server_lease: fn(&str) -> String,
    authority: Authority,
}

impl Edge {
    pub fn spawn(hub: &Hub, options: EdgeOptions, tasks: &mut Tasks) -> Result<Arc<Self>, Error> {
        let mut watches = Watches::new(hub)?;
        let sources = Sources::new(hub, &mut watches)?;
        let views = watches.views.clone();
        let drivers = Drivers::start(Config {
            classes: sources.clone(),
            secrets: sources,
            gate: options.gate,
            timing: options.timing,
        });
        let held = Arc::new(Held::default());
        let publisher = Publisher::new(hub, drivers.clone(), held.clone(), &options.server)?;
        let speaker = Speaker {
            hub: hub.clone(),
            drivers: drivers.clone(),
            views: views.clone(),
            held,
            server: options.server,
            authority: options.authority.clone(),
            orphans: options.orphans,
        };
        let synced = watches.spawn(tasks);
        let (stop, known) = (tasks.stop_token(), synced.clone());
        tasks.spawn("machine-drivers", OnEnd::StopAll, async move {
            until_synced(known, &stop).await;
            speaker.run(stop).await
        });
        let stop = tasks.stop_token();
        tasks.spawn("machine-driver-resources", OnEnd::StopAll, publisher.run(stop.clone()));
        let ending = drivers.clone();
        tasks.spawn("machine-driver-edge", OnEnd::StopAll, async move {
            stop.cancelled().await;
            ending.shutdown().await;
            Ok::<(), std::convert::Infallible>(())
        });
        let (server_lease, authority) = (options.server_lease, options.authority);
        Ok(Arc::new(Self { drivers, views, synced, server_lease, authority }))
    }

    pub fn drivers(&self) -> &Drivers {
        &self.drivers
    }

    pub(super) fn views(&self) -> &Arc<Views> {
        &self.views
    }

    pub(super) fn synced(&self) -> Vec<watch::Receiver<bool>> {
        self.synced.clone()
    }

    pub(super) fn authority(&self) -> Authority {
        self.authority.clone()
    }

    pub(super) fn server_lease(&self) -> fn(&str) -> String {
        self.server_lease
    }
}

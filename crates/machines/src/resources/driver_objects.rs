//! Driver resources: what is registered, from where, since when, and how it fares.
use super::refs::{named, revision, short_hash};
use super::{ignore_gone, record};
use crate::drivers::{DriverInfo, DriverKey, DriverState, Drivers};
use orrery_api::is_name;
use orrery_hub::{ApplyOptions, Error, Hub, ObjectName, Precondition, Resources};
use orrery_proto::infra::v1::{Driver, DriverSpec, DriverStatus};
use orrery_runtime::View;
use parking_lot::RwLock;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often counters that changed are written: they are for people, not for decisions.
const TALLY_INTERVAL: Duration = Duration::from_secs(30);
/// How often the leader looks for drivers of servers that ended.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// How long a driver that went is shown, so that people see what happened.
const GONE_SECONDS: u64 = 600;

/// The kinds of drivers that this server speaks for.
#[derive(Default)]
pub struct Held {
    keys: RwLock<HashSet<DriverKey>>,
    changed: Notify,
}

impl Held {
    pub fn take(self: &Arc<Self>, key: DriverKey) -> Holding {
        self.keys.write().insert(key.clone());
        self.changed.notify_one();
        Holding { held: self.clone(), key }
    }
}

/// Speaks for a kind until it is dropped.
pub struct Holding {
    held: Arc<Held>,
    key: DriverKey,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.keys.write().remove(&self.key);
        self.held.changed.notify_one();
    }
}

/// Writes the drivers that are connected to this server.
pub struct Publisher {
    resources: Resources<Driver>,
    hub: Hub,
    drivers: Drivers,
    held: Arc<Held>,
    server: String,
}

impl Publisher {
    pub fn new(hub: &Hub, drivers: Drivers, held: Arc<Held>, server: &str) -> Result<Self, Error> {
        let server = server.to_owned();
        Ok(Self { resources: hub.resources()?, hub: hub.clone(), drivers, held, server })
    }

    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut infos = self.drivers.watch();
        let mut written: HashMap<u64, DriverStatus> = HashMap::new();
        loop {
            let now = infos.borrow_and_update().clone();
            for info in now.iter() {
                let status = self.status(info);
                if written.get(&info.epoch).is_some_and(|it| same(it, &status)) {
                    continue;
                }
                match self.write(info, status.clone()).await {
                    Ok(()) => {
                        written.insert(info.epoch, status);
                    }
                    Err(error) => tracing::warn!(%error, "cannot write a driver, will try again"),
                }
            }
            written.retain(|epoch, _| now.iter().any(|info| info.epoch == *epoch));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                changed = infos.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
                () = self.held.changed.notified() => {}
                () = tokio::time::sleep(TALLY_INTERVAL) => {}
            }
        }
    }

    fn status(&self, info: &DriverInfo) -> DriverStatus {
        let here = self.held.keys.read().contains(&info.hello.key);
        let (state, message) = match &info.state {
            DriverState::Active if here => ("Active", String::new()),
            DriverState::Active | DriverState::Standby => {
                ("Standby", "another driver of this kind is active".to_owned())
            }
            DriverState::Leaving => ("Leaving", "it finishes what it has begun".to_owned()),
            DriverState::Gone(reason) => ("Gone", reason.to_string()),
        };
        let tally = self.drivers.tally(info.epoch).unwrap_or_default();
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        DriverStatus {
            state: state.to_owned(),
            message,
            since: None,
            peer: info.peer.to_string(),
            server: self.server.clone(),
            succeeded: count(tally.succeeded),
            failed: count(tally.failed),
            last_error: tally.last_error.unwrap_or_default(),
            session_epoch: count(info.epoch),
        }
    }

    async fn write(&self, info: &DriverInfo, mut status: DriverStatus) -> Result<(), Error> {
        let name = self.name(info);
        let before = self.resources.find(&name).await?;
        if before.is_none() {
            if status.state == "Gone" {
                return Ok(());
            }
            let driver =
                Driver { metadata: named(&name), spec: Some(spec(info)), ..Driver::default() };
            self.resources.create(&driver).await?;
        }
        let before = before.and_then(|it| it.status).unwrap_or_default();
        if before.state == status.state {
            status.since = before.since;
        } else {
            status.since = Some(self.hub.clock().now());
        }
        if status.state == "Gone" {
            // The counters went with the connection.
            (status.succeeded, status.failed) = (before.succeeded, before.failed);
            status.last_error = before.last_error;
        }
        let driver = Driver { metadata: named(&name), status: Some(status), ..Driver::default() };
        ignore_gone(self.resources.write_status(&driver).await).map(|_| ())
    }

    /// One for each connection; what it calls itself comes first, for people.
    fn name(&self, info: &DriverInfo) -> ObjectName {
        let said = info.hello.name.to_lowercase();
        let said = if is_name(&said) { super::refs::clip(&said, 40) } else { "driver" };
        let hash = short_hash(&[&self.server, &info.epoch.to_string()], 8);
        ObjectName::new("", format!("{said}-{hash}"))
    }
}

fn same(a: &DriverStatus, b: &DriverStatus) -> bool {
    DriverStatus { since: None, ..a.clone() } == DriverStatus { since: None, ..b.clone() }
}

fn spec(info: &DriverInfo) -> DriverSpec {
    let hello = &info.hello;
    DriverSpec {
        name: Some(hello.name.clone()),
        provider: Some(hello.key.kind.clone()),
        provider_version: Some(hello.key.api_version.clone()),
        protocol: Some(hello.protocol),
        program_version: Some(hello.program_version.clone()),
        capabilities: hello.capabilities.clone(),
        max_concurrent: i32::try_from(hello.max_concurrent).ok(),
    }
}

/// The leader's part: drivers whose server ended are gone, and those that are gone for a while are
/// forgotten.
pub struct Sweep {
    resources: Resources<Driver>,
    hub: Hub,
    view: Arc<View<Driver>>,
    server_lease: fn(&str) -> String,
}

impl Sweep {
    pub fn new(
        hub: &Hub,
        view: Arc<View<Driver>>,
        server_lease: fn(&str) -> String,
    ) -> Result<Self, Error> {
        Ok(Self { resources: hub.resources()?, hub: hub.clone(), view, server_lease })
    }

    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
            for (name, driver) in self.view.all() {
                if let Err(error) = self.look_at(&name, &driver).await {
                    tracing::warn!(%error, driver = %name, "cannot look after a driver");
                }
            }
        }
    }

    async fn look_at(&self, name: &ObjectName, driver: &Driver) -> Result<(), Error> {
        let status = driver.status.clone().unwrap_or_default();
        if status.state == "Gone" {
            let now = record::time(self.hub.clock().now());
            let since = status.since.map_or(now, record::time);
            if Duration::from_secs(GONE_SECONDS) <= crate::plan::elapsed(now, since) {
                self.resources.delete(name).await?;
            }
            return Ok(());
        }
        if self.hub.is_held(&(self.server_lease)(&status.server)).await? {
            return Ok(());
        }
        let status = DriverStatus {
            state: "Gone".to_owned(),
            message: "its server ended".to_owned(),
            since: Some(self.hub.clock().now()),
            ..status
        };
        let precondition = Precondition::At(revision(&driver.metadata)?);
        let next = Driver { metadata: named(name), status: Some(status), ..Driver::default() };
        let next = super::sets::object(&self.resources, &next)?;
        let options = ApplyOptions { precondition, ..ApplyOptions::status() };
        match self.resources.accessor().apply(next, options).await {
            Err(Error::Conflict { .. }) => Ok(()),
            other => ignore_gone(other).map(|_| ()),
        }
    }
}

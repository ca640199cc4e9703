//! From announcements to mailboxes.
use super::Control;
use crate::announce::Announcements;
use crate::catalog::Change;
use crate::names::{ProxyName, ServiceName};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Runs beside a [`Control`].
pub struct Publisher {
    control: Arc<Control>,
    announcements: Announcements<Change>,
    /// The oldest config change that did not go out yet.
    config_since: Option<Instant>,
    /// Whether something is declared differently: that may concern everybody.
    is_declared_anew: bool,
    /// Whose certificates were replaced.
    certificates: BTreeSet<ProxyName>,
    /// Services that are no longer declared: their endpoints go with the config that does without them.
    undeclared: BTreeSet<ServiceName>,
}

impl Publisher {
    pub(super) fn new(control: Arc<Control>, announcements: Announcements<Change>) -> Self {
        Self {
            control,
            announcements,
            config_since: None,
            is_declared_anew: false,
            certificates: BTreeSet::new(),
            undeclared: BTreeSet::new(),
        }
    }

    /// Publishes until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let due = self.config_since.map(|since| since + self.control.options.config_delay);
            tokio::select! {
                () = stop.cancelled() => return,
                changes = self.announcements.next() => self.take(changes, Instant::now()),
                () = sleep_until(due) => self.publish_config(),
            }
        }
    }

    /// Endpoints go out now; config is remembered.
    fn take(&mut self, changes: BTreeSet<Change>, now: Instant) {
        for change in changes {
            match change {
                Change::Endpoints(service) => self.take_endpoints(service, now),
                // Which endpoints are those of a port is a matter of declaration too.
                Change::Topology(service) => {
                    self.take_endpoints(service, now);
                    self.is_declared_anew = true;
                    self.config_since.get_or_insert(now);
                }
                Change::Certificate(proxy) => {
                    self.certificates.insert(proxy);
                    self.config_since.get_or_insert(now);
                }
            }
        }
    }

    fn take_endpoints(&mut self, service: ServiceName, now: Instant) {
        if self.control.catalog.is_declared(&service) {
            self.control.publish_endpoints(&service, now);
        } else {
            self.undeclared.insert(service);
            self.is_declared_anew = true;
            self.config_since.get_or_insert(now);
        }
    }

    fn publish_config(&mut self) {
        let Some(since) = self.config_since.take() else { return };
        let (groups, origin) = (&self.control.groups, self.control.origin());
        let certificates = std::mem::take(&mut self.certificates);
        match std::mem::take(&mut self.is_declared_anew) {
            true => groups.rebuild(origin, since),
            false => groups.rebuild_named(origin, &certificates, since),
        }
        for service in std::mem::take(&mut self.undeclared) {
            self.control.publish_endpoints(&service, since);
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Control {
    fn publish_endpoints(&self, service: &ServiceName, now: Instant) {
        let changed = self.table.refresh(&*self.catalog, service);
        if changed.is_empty() {
            return;
        }
        let names = changed.iter().flat_map(|at| [at.shared(), Arc::from(at.short())]);
        let names: Vec<Arc<str>> = names.collect();
        for mailbox in self.index.lock().watchers(service) {
            mailbox.endpoints_changed(&names, now);
        }
    }
}

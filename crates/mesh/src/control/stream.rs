//! One open stream of one proxy.
use super::groups::Group;
use super::sides::{GroupKey, Sides};
use super::snapshot::Snapshot;
use super::{Control, ProxyKey, ProxyStatus, StreamId};
use crate::address::Placed;
use crate::catalog::Registration;
use crate::names::{Destination, ProxyName, ServiceName};
use crate::xds::{Kind, Mailbox, Pending, Protocol, Push, Request, Resource, Session, View};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// A proxy that was let in.
#[derive(Clone, Debug)]
pub struct Admission {
    pub service: ServiceName,
    /// As it proved who it is: those it shows to other proxies say the same.
    pub name: ProxyName,
    /// As the proxy calls itself.
    pub instance: String,
    pub address: Option<SocketAddr>,
    pub protocol: Protocol,
    /// Where it listens; `None` if it asks for endpoints only.
    pub sides: Option<Sides>,
    /// Where others reach the instance it fronts, by port, if it says so.
    pub endpoints: Vec<Placed>,
}

/// What the status can see of a stream.
pub struct StreamState {
    key: ProxyKey,
    admission: Admission,
    group: Arc<Group>,
    session: Mutex<Session>,
    since: Instant,
}

impl StreamState {
    pub fn status(&self, control: &Control) -> ProxyStatus {
        let snapshot = self.group.snapshot();
        let findings = snapshot.findings.clone();
        let view = StreamView { control, service: &self.admission.service, snapshot };
        let session = self.session.lock();
        ProxyStatus {
            service: self.admission.service.clone(),
            instance: self.admission.instance.clone(),
            address: self.admission.address,
            connected_for: Instant::now() - self.since,
            endpoints: self.admission.endpoints.clone(),
            kinds: session.status(&view),
            unknown_types: session.unknown_types().clone(),
            findings,
        }
    }
}

/// Closes the stream when dropped.
pub struct StreamHandle {
    control: Arc<Control>,
    id: StreamId,
    state: Arc<StreamState>,
    mailbox: Arc<Mailbox>,
    _registrations: Vec<Registration>,
    _permit: OwnedSemaphorePermit,
}

impl StreamHandle {
    pub(super) fn open(
        control: Arc<Control>,
        id: StreamId,
        admission: Admission,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mailbox = Arc::new(Mailbox::default());
        let key = GroupKey {
            service: admission.service.clone(),
            name: admission.name.clone(),
            sides: admission.sides.clone(),
        };
        let group = control.groups.join(control.origin(), key, id, &mailbox);
        let endpoints = admission.endpoints.iter().cloned();
        let registrations = endpoints
            .map(|endpoint| control.catalog.register_proxy(&admission.service, endpoint))
            .collect();
        let state = Arc::new(StreamState {
            key: ProxyKey {
                service: admission.service.clone(),
                instance: admission.instance.as_str().into(),
            },
            session: Mutex::new(Session::new(admission.protocol, control.options.warming_max)),
            since: Instant::now(),
            admission,
            group,
        });
        Self { control, id, state, mailbox, _registrations: registrations, _permit: permit }
    }

    pub(super) fn state(&self) -> Weak<StreamState> {
        Arc::downgrade(&self.state)
    }

    pub(super) fn key(&self) -> &ProxyKey {
        &self.state.key
    }

    pub fn service(&self) -> &ServiceName {
        &self.state.admission.service
    }

    /// A request of a type that we may or may not serve.
    pub fn request(&self, type_url: &str, request: &Request) {
        self.control.touched.announce([self.state.key.clone()]);
        let mut session = self.state.session.lock();
        let Some(kind) = Kind::of(type_url) else {
            session.unknown_type(type_url);
            return;
        };
        log_refusal(self.service(), kind, request);
        let changed = session.request(kind, request, Instant::now());
        if kind != Kind::Endpoints || !changed {
            return;
        }
        let names = session.names(kind).into_iter().flatten();
        let services: BTreeSet<ServiceName> =
            names.filter_map(|name| Some(resolve(self.service(), name)?.service)).collect();
        // Before anything is looked up, so that no change falls between.
        let mut index = self.control.index.lock();
        let orphans = index.set(self.id, &self.mailbox, services);
        self.control.table.forget(&orphans);
    }

    /// How many names it asks for, of all kinds.
    pub fn names_count(&self) -> usize {
        let session = self.state.session.lock();
        Kind::ALL.into_iter().filter_map(|kind| session.names(kind)).map(BTreeSet::len).sum()
    }

    /// What to send now, if anything.
    pub fn next(&self) -> Option<Push> {
        let view = StreamView {
            control: &self.control,
            service: self.service(),
            snapshot: self.state.group.snapshot(),
        };
        let push = self.state.session.lock().next(&view, Instant::now());
        self.control.touched.announce(push.as_ref().map(|_| self.state.key.clone()));
        push
    }

    /// Waits for a change that concerns this stream, or until it has waited for the client long enough. Safe to
    /// cancel.
    pub async fn changed(&self) -> Pending {
        let wake_at = self.state.session.lock().wake_at();
        match wake_at {
            None => self.mailbox.next().await,
            Some(wake_at) => {
                let waiting = tokio::time::timeout_at(wake_at, self.mailbox.next()).await;
                waiting.unwrap_or_default()
            }
        }
    }

    pub fn mark(&self, pending: &Pending) {
        self.state.session.lock().mark(pending);
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.control.forget(self.id, &self.state.key);
        let mut index = self.control.index.lock();
        let orphans = index.remove(self.id);
        // Still under the lock of the index: a stream that asks for one of them now asks after us.
        self.control.table.forget(&orphans);
        drop(index);
        self.control.groups.leave(&self.state.group.key, self.id);
    }
}

fn log_refusal(service: &ServiceName, kind: Kind, request: &Request) {
    if let Some(error) = &request.error {
        tracing::warn!(%service, %kind, error, "a proxy refused its configuration");
    }
}

/// The port of a service that a name of endpoints means to a proxy of `source`.
fn resolve(source: &ServiceName, asked: &str) -> Option<Destination> {
    Destination::within(source.project(), asked).ok()
}

/// Everything one stream may see.
struct StreamView<'a> {
    control: &'a Control,
    service: &'a ServiceName,
    snapshot: Arc<Snapshot>,
}

impl StreamView<'_> {
    /// Endpoints that are closed to this proxy look like those of a service that does not exist.
    fn endpoints(&self, asked: &str) -> Arc<Resource> {
        let at = resolve(self.service, asked);
        let open = at.filter(|at| !self.snapshot.is_closed(at));
        match open {
            Some(at) => self.control.table.get(&*self.control.catalog, &at, asked),
            None => Arc::new(crate::envoy::load_assignment(&asked.into(), &[])),
        }
    }
}

impl View for StreamView<'_> {
    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        match kind {
            Kind::Endpoints => Some(self.endpoints(name)),
            Kind::Secret | Kind::Cluster | Kind::Listener | Kind::Route => {
                self.snapshot.get(kind, name)
            }
        }
    }

    fn has_endpoints(&self, cluster: &str) -> bool {
        !crate::envoy::is_local(cluster)
    }

    fn stand_in(&self, cluster: &str) -> Option<Arc<Resource>> {
        crate::envoy::stand_in(&resolve(self.service, cluster)?, cluster).map(Arc::new)
    }

    /// Endpoints have to be asked for by name.
    fn names(&self, kind: Kind) -> Vec<Arc<str>> {
        self.snapshot.names(kind)
    }
}

//! Putting it together.
use crate::api::{Front, HubApi};
use crate::audit::{self, Audit};
use crate::browsers::Browsers;
use crate::clusters;
use crate::connection::Threads;
use crate::error::Error;
use crate::gate::{self, Gate};
use crate::grpc::commands::Commands;
use crate::grpc::hub::HubService;
use crate::grpc::identity::IdentityService;
use crate::grpc::routes;
use crate::identity::{Identities, authenticate};
use crate::leading::Controllers;
use crate::limits::{Connections as ConnectionLimits, Ledger};
use crate::listener::Listener;
use crate::machines::{self, DriversPort};
use crate::mesh;
use crate::metrics::Metrics;
use crate::operations::ConnectionThreads;
use crate::options::{ServerOptions, StoreOptions};
use crate::peers::Peers;
use crate::port;
use crate::rest;
use crate::resting;
use crate::sealing::{self, KeySource, Rotation, Sealer};
use crate::secrets;
use crate::services::Services;
use crate::side;
use crate::storage;
use crate::unread;
use crate::upstream::{self, Upstreams};
use orrery_api::{Scheme, SchemeBuilder};
use orrery_fleet::agents::connection::AgentConnections;
use orrery_fleet::commander::CommanderConnections;
use orrery_fleet::{Fleet, Place};
use orrery_gitsync::GitOptions;
use orrery_hub::Hub;
use orrery_machines::controller::orphans::OrphanTiming;
use orrery_mesh::hub::Mesh;
use orrery_pki::ClientAuth;
use orrery_runtime::{OnEnd, Tasks};
use orrery_store::{Engine, Store};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where peers are taken in.
#[derive(Clone)]
pub struct Connections {
    pub agents: AgentConnections,
    pub commanders: CommanderConnections,
}

impl Connections {
    /// Ends when every connection has ended.
    async fn drained(&self) {
        self.agents.drained().await;
        self.commanders.drained().await;
    }
}

/// A server that is ready to serve.
pub struct Server {
    /// Different for each start.
    id: String,
    /// Where other servers reach it.
    address: String,
    peers: Peers,
    upstreams: Upstreams,
    listener: Listener,
    browsers: Browsers,
    drivers: Option<DriversPort>,
    orphans: OrphanTiming,
    git: GitOptions,
    threads: ConnectionThreads,
    storage: Option<storage::Bound>,
    engine: Arc<dyn Engine>,
    store: Store,
    hub: Hub,
    identities: Identities,
    metrics: Arc<Metrics>,
    sealer: Arc<Sealer>,
    gate: Gate,
    writing: Option<audit::Writing>,
    mesh: mesh::Prepared,
}

impl Server {
    /// Opens the store, registers the kinds and binds the port. When this returns, connections are
    /// accepted by the kernel, and they are answered as soon as [`Server::spawn`] was called.
    pub async fn open(options: ServerOptions) -> Result<Self, Error> {
        let files = Identities::files(&options.tls)?;
        let encrypted = files.is_some() || options.identity.own;
        let tcp = bind(&options, encrypted)?;
        let address = reached_at(&tcp, &options, encrypted)?;
        let browsers = browsers(&options);
        let metrics = Arc::new(Metrics::new());
        let limits = options.operations.limits.clone();
        let connections = ConnectionLimits::new(&limits, &mut metrics.registry());
        let ledger = Ledger::new(limits, &mut metrics.registry());
        let (audit, writing) =
            Audit::open(options.operations.audit.as_ref(), &mut metrics.registry())?;
        let scheme = Scheme::builder()
            .group_suffix(options.group_suffix)
            .descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
        let scheme = Arc::new(rules(scheme).build()?);
        let id = uuid::Uuid::new_v4().to_string();
        let upstreams = &options.operations.upstreams;
        let upstreams = Upstreams::open(upstreams, &scheme, &id, &address)?;
        let engine = open_engine(&options.store).await?;
        let source = key_source(options.operations.key, &options.store);
        let prefixes = orrery_hub::secret_prefixes(&scheme);
        let sealer = Arc::new(sealing::agree(&*engine, source, prefixes).await?);
        let opened = orrery_store::sealed(engine.clone(), sealer.clone());
        let store = Store::start(metrics.measured(opened), cached(&scheme)).await?;
        metrics.of_store(&store, options.store.folder());
        let builder = secrets::register(Hub::builder(scheme, store.clone()));
        let builder = orrery_machines::resources::register(orrery_volumes::register(builder));
        let builder = orrery_clusters::register(builder);
        let builder = orrery_lifecycle::register(Fleet::register(builder));
        let hub = upstreams.register(builder).build()?;
        upstream::register_figures(&mut metrics.registry(), &hub);
        orrery_lifecycle::ensure_projects(&hub).await?;
        let identities = Identities::open(&hub, options.identity, files, &tcp).await?;
        let live = identities.live();
        let material = live.map(|live| live.current().0);
        let mesh = mesh::Prepared::new(options.mesh.clone(), material.as_ref()).await?;
        let (main, encrypted) = (options.listen, live.is_some());
        let drivers = side::DRIVERS.bind(options.drivers, main, encrypted)?;
        let drivers = drivers.map(|(tcp, address)| DriversPort::new(tcp, address, live));
        let storage = side::STORAGE.bind(options.storage, main, encrypted)?;
        let storage = storage.map(|(tcp, at)| storage::Bound::new(tcp, at, live.cloned()));
        let config = live.map(|live| live.server_config(ClientAuth::Optional));
        let listener = Listener::new(tcp, config, connections);
        let (orphans, git) = (options.operations.orphans, options.operations.git);
        let peers = Peers::new(identities.live().cloned());
        let gate = Gate::new(metrics.requests().clone(), ledger, audit, hub.clock().clone());
        Ok(Self {
            id,
            address,
            peers,
            upstreams,
            listener,
            browsers,
            drivers,
            orphans,
            git,
            threads: options.operations.threads,
            storage,
            engine,
            store,
            hub,
            identities,
            metrics,
            sealer,
            gate,
            writing,
            mesh,
        })
    }

    pub fn address(&self) -> Result<SocketAddr, Error> {
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        self.listener.address().map_err(|cause| Error::Listen { address, cause })
    }

    /// Where machine drivers register, if they can.
    pub fn drivers_address(&self) -> Option<SocketAddr> {
        self.drivers.as_ref().map(DriversPort::address)
    }

    /// Where the storage registry listens, if it does.
    pub fn storage_address(&self) -> Option<SocketAddr> {
        self.storage.as_ref().map(storage::Bound::address)
    }

    /// `http` or `https`.
    pub fn scheme_name(&self) -> &'static str {
        if self.listener.encrypted() { "https" } else { "http" }
    }

    /// Who signs certificates here.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Starts everything; it ends when the tasks are stopped. What is returned takes peers in by
    /// other ways than the listener.
    pub fn spawn(mut self, tasks: &mut Tasks) -> Result<Connections, Error> {
        let stop = tasks.stop_token();
        let place = self.place();
        // What acts by itself does not write what others keep; whoever asks does.
        let parts = self.hub.for_parts();
        let fleet = Fleet::spawn(&parts, place, tasks)?;
        let access = self.identities.spawn(&parts, tasks)?;
        let machines = machines::spawn(
            &parts,
            &self.id,
            self.drivers.take(),
            access.clone(),
            self.identities.authorities().clone(),
            self.orphans,
            tasks,
        )?;
        let mesh = self.mesh.spawn(&parts, &self.id, self.identities.authorities(), tasks)?;
        let controllers = Controllers {
            assignments: fleet.assignments().clone(),
            machines,
            mesh: mesh.clone(),
            to_storage: self.storage.as_ref().map(storage::Bound::proxy_config),
            git: self.git.clone(),
            access: access.clone(),
            leading: self.metrics.leader().clone(),
        };
        controllers.spawn(&parts, &self.id, &self.address, tasks);
        self.spawn_operations(tasks);
        let gate = self.gate.clone();
        let front = Front::new(HubApi::new(self.hub.clone(), access.clone()), gate.clone());
        if let Some(storage) = self.storage.take() {
            storage.spawn(&parts, access.clone(), tasks)?;
        }
        let agents = AgentConnections::new(fleet.clone(), stop.clone());
        let rotation = Rotation::new(self.engine.clone(), self.sealer.clone(), &self.id);
        let (entered, engine, figures) = (front.clone(), self.engine.clone(), self.metrics.clone());
        let commands = Commands::new(entered, engine, fleet.clone(), rotation, figures);
        let commands = Arc::new(commands);
        let commanders = CommanderConnections::new(commands, stop.clone());
        let connections = Connections { agents, commanders };
        let identity = IdentityService::server(&self.hub, self.identities, access.clone())?;
        self.metrics.of_peers(&fleet, &connections.commanders);
        let hub = HubService::server(front.clone());
        let router = routes::all(front, &self.hub, &connections, fleet.clone(), (&mesh, &stop));
        let router = router.merge(routes::joining(identity));
        let connects = axum::middleware::from_fn_with_state(gate.clone(), gate::connects);
        let router = router.layer(connects);
        let entered = gate.clone();
        let (figures, execs) = (self.metrics, TaskTracker::new());
        let running = (fleet, execs.clone());
        let rest = rest::router(self.hub, access.clone(), entered, figures, running, stop.clone())?;
        let router = router.reset_fallback().merge(rest).merge(orrery_console::router());
        let router = router.fallback(rest::unknown);
        let proven = (access.clone(), gate.clone());
        let check = axum::middleware::from_fn_with_state(proven, authenticate);
        let router = router.layer(check).layer(axum::middleware::from_fn(unread::thrown_away));
        let services = Services::new(router, hub, access.clone(), gate, self.browsers);
        let listener = self.listener.guarded(access);
        let (store, engine, threads) = (self.store, self.engine, self.threads);
        let taken_in = (connections.clone(), execs);
        let serving = serve(listener, services, threads, taken_in, stop);
        tasks.spawn("listener", OnEnd::StopAll, serving);
        tasks.finally(async move {
            store.stop().await;
            engine.close().await;
        });
        Ok(connections)
    }
}

impl Server {
    /// This server among others.
    fn place(&mut self) -> Place {
        let peers = std::mem::replace(&mut self.peers, Peers::new(None));
        Place { server: self.id.clone(), address: self.address.clone(), elsewhere: Arc::new(peers) }
    }

    /// What follows from what operators decide: which key seals, which kinds others keep, and the audit log.
    fn spawn_operations(&mut self, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        self.upstreams.spawn(&self.hub, self.identities.live().cloned(), tasks);
        let (engine, sealer) = (self.engine.clone(), self.sealer.clone());
        let keys = sealing::follow(engine, sealer, self.id.clone(), stop.clone());
        tasks.spawn("encryption-keys", OnEnd::StopAll, keys);
        tasks.spawn("rest", OnEnd::Ignore, resting::rest(self.hub.clone(), stop.clone()));
        if let Some(writing) = self.writing.take() {
            tasks.spawn("audit-log", OnEnd::StopAll, writing.run(stop));
        }
    }
}

/// Serves until it is told to stop, and until everything that was begun has ended.
async fn serve(
    listener: Listener,
    services: Services,
    threads: ConnectionThreads,
    (connections, execs): (Connections, TaskTracker),
    stop: CancellationToken,
) -> std::io::Result<()> {
    let threads = Threads::start(threads)?;
    listener.serve(services, &threads, stop).await;
    connections.drained().await;
    execs.close();
    execs.wait().await;
    threads.end().await;
    Ok(())
}

/// What resources must be like beyond what their definitions say.
pub fn rules(scheme: SchemeBuilder) -> SchemeBuilder {
    let scheme = orrery_access::rules_of_kinds(scheme);
    let scheme = orrery_machines::resources::rules(Mesh::rules(Fleet::rules(scheme)));
    clusters::rules(orrery_gitsync::rules(orrery_volumes::rules(scheme)))
}

fn bind(options: &ServerOptions, encrypted: bool) -> Result<TcpListener, Error> {
    let address = options.listen;
    if !encrypted && !address.ip().is_loopback() {
        if !options.allow_plain {
            return Err(Error::PlainBeyondLoopback { address });
        }
        tracing::warn!(%address, "without certificates everybody who reaches this port can do everything");
    }
    port::open(address).map_err(|cause| Error::Listen { address, cause })
}

/// Where other servers reach this one.
fn reached_at(
    tcp: &TcpListener,
    options: &ServerOptions,
    encrypted: bool,
) -> Result<String, Error> {
    if let Some(address) = &options.advertise {
        return Ok(address.clone());
    }
    let address = options.listen;
    let bound = tcp.local_addr().map_err(|cause| Error::Listen { address, cause })?;
    Ok(format!("{}://{bound}", if encrypted { "https" } else { "http" }))
}

/// What is asked of requests where connections are plain. Who takes them from other machines too has said that
/// the network is safe, and which names the server has there nobody knows here.
fn browsers(options: &ServerOptions) -> Browsers {
    match options.listen.ip().is_loopback() && !options.allow_plain {
        true => Browsers::on_loopback(options.advertise.as_deref()),
        false => Browsers::beyond_loopback(),
    }
}

/// What ends with the process needs no key that outlives it.
fn key_source(given: KeySource, store: &StoreOptions) -> KeySource {
    match (given, store) {
        (KeySource::None, StoreOptions::Memory) => KeySource::Fresh,
        (given, _) => given,
    }
}

/// What is held in memory: what is watched and listed; leases and artifacts are read where they are.
fn cached(scheme: &Scheme) -> orrery_store::StoreOptions {
    orrery_store::StoreOptions {
        prefix: orrery_hub::OBJECTS.to_owned(),
        terms: Some(Arc::new(orrery_hub::ObjectTerms::new(scheme))),
        ..orrery_store::StoreOptions::default()
    }
}

async fn open_engine(options: &StoreOptions) -> Result<Arc<dyn Engine>, Error> {
    match options {
        StoreOptions::Embedded(folder) => {
            let options = orrery_store::EmbeddedOptions::default();
            Ok(orrery_store::open_embedded(folder, options).await?)
        }
        StoreOptions::Etcd(options) => Ok(orrery_store::open_etcd(options.clone()).await?),
        StoreOptions::Memory => Ok(orrery_store::memory()),
    }
}

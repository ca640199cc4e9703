//! A whole server in the test's own process: a store in memory (or in a folder), a port that the
//! kernel picked, stopped on drop.
use orrery_client::{Commander, Endpoint};
use orrery_hub::{Error, Hub, ObjectName};
use orrery_pki::{TlsFiles, TlsMaterial};
use orrery_runtime::Tasks;
use orrery_server::{
    Connections, EtcdOptions, Identities, IdentityOptions, KeySource, Listen, MeshSettings, Server,
    ServerOptions, StoreOptions,
};
pub use orrery_server::{Operations, OrphanTiming};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a test waits for something that should happen soon, before it fails. Generous, because
/// machines that run tests are busy.
pub const SOON: Duration = Duration::from_secs(30);

/// A running server.
pub struct World {
    pub url: String,
    /// Where machine drivers register.
    pub drivers: SocketAddr,
    pub hub: Hub,
    /// Where the storage registry listens.
    pub storage: SocketAddr,
    pub connections: Connections,
    pub identities: Identities,
    stop: CancellationToken,
    running: JoinSet<Result<(), orrery_runtime::TaskError>>,
    _stop_on_drop: DropGuard,
}

/// What a world is made of.
#[derive(Clone, Debug, Default)]
pub struct WorldOptions {
    /// A free port when absent.
    pub listen: Option<SocketAddr>,
    /// Where the store is kept; in memory when absent.
    pub folder: Option<PathBuf>,
    /// An etcd instead.
    pub etcd: Option<EtcdOptions>,
    pub tls: TlsFiles,
    pub identity: IdentityOptions,
    pub operations: Operations,
    pub mesh: MeshSettings,
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(WorldOptions::default()).await
    }

    /// At an address that was used before, on what was stored before.
    pub async fn start_at(listen: SocketAddr, folder: &Path) -> Self {
        let folder = Some(folder.to_owned());
        Self::start_with(WorldOptions { listen: Some(listen), folder, ..<_>::default() }).await
    }

    pub async fn start_with(mut options: WorldOptions) -> Self {
        if let (KeySource::None, Some(folder)) = (&options.operations.key, &options.folder) {
            let path = folder.with_extension("key");
            options.operations.key = KeySource::File { path, make: true };
        }
        let store = match (options.etcd, options.folder) {
            (Some(etcd), _) => StoreOptions::Etcd(etcd),
            (None, Some(folder)) => StoreOptions::Embedded(folder),
            (None, None) => StoreOptions::Memory,
        };
        let options = ServerOptions {
            listen: options.listen.unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
            drivers: Listen::Beside { needed: false },
            store,
            tls: options.tls,
            allow_plain: false,
            advertise: None,
            group_suffix: orrery_api::DEFAULT_GROUP_SUFFIX.to_owned(),
            identity: options.identity,
            operations: options.operations,
            mesh: options.mesh,
            storage: Listen::At(([127, 0, 0, 1], 0).into()),
        };
        let server = Server::open(options).await.expect("a server on a free port");
        let address = server.address().expect("it is bound");
        let url = format!("{}://{address}", server.scheme_name());
        let storage = server.storage_address().expect("it listens for storage controllers");
        let drivers = server.drivers_address().expect("a free port");
        let hub = server.hub().clone();
        let identities = server.identities().clone();
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let connections = server.spawn(&mut tasks).expect("it starts");
        let mut running = JoinSet::new();
        running.spawn(tasks.run(SOON));
        let _stop_on_drop = stop.clone().drop_guard();
        Self { url, drivers, hub, storage, connections, identities, stop, running, _stop_on_drop }
    }

    /// How a client reaches it.
    pub fn endpoint(&self, tls: Option<TlsMaterial>) -> Endpoint {
        Endpoint::new(&self.url, tls).expect("our own address")
    }

    pub async fn commander(&self) -> Commander {
        Commander::connect(&self.endpoint(None)).await.expect("the server listens")
    }

    /// Stops the server, cleanly.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = self.running.join_next().await.expect("it runs");
        ended.expect("it does not panic").expect("a clean stop");
    }

    /// Waits until a resource is as the test wants it; fails with what it is instead.
    pub async fn until<T>(&self, name: &ObjectName, wanted: impl Fn(&T) -> bool) -> T
    where
        T: prost::Message + prost::Name + Default + std::fmt::Debug,
    {
        let resources = self.hub.resources::<T>().expect("a kind");
        let mut last = None;
        let found = tokio::time::timeout(SOON, async {
            loop {
                last = resources.find(name).await.expect("the store answers");
                if let Some(found) = last.take_if(|found| wanted(found)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        found.unwrap_or_else(|_| panic!("{} {name} is not as wanted: {last:#?}", T::NAME))
    }

    /// Waits until a resource is gone.
    pub async fn until_gone<T>(&self, name: &ObjectName)
    where
        T: prost::Message + prost::Name + Default,
    {
        let resources = self.hub.resources::<T>().expect("a kind");
        let gone = tokio::time::timeout(SOON, async {
            while resources.find(name).await.expect("the store answers").is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(gone.await.is_ok(), "{} {name} is still there", T::NAME);
    }

    /// A project to work in.
    pub async fn project(&self, name: &str) {
        use orrery_proto::core::v1::{Project, ProjectSpec};
        let metadata =
            orrery_proto::meta::v1::ObjectMeta { name: name.to_owned(), ..<_>::default() };
        let project =
            Project { metadata: Some(metadata), spec: Some(ProjectSpec {}), ..Project::default() };
        let created = self.hub.resources().expect("a kind").create(&project).await;
        match created {
            Ok(_) | Err(Error::AlreadyExists { .. }) => {}
            Err(error) => panic!("cannot create project {name}: {error}"),
        }
    }
}

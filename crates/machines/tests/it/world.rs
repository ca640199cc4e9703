//! A whole edge in one process: sources that are maps, connections that are pipes, so that tests
//! run on a paused clock without a socket.
use futures::StreamExt;
use hyper_util::rt::TokioIo;
use orrery_machines::drivers::{
    self, Attributed, Call, CertificateOrLoopback, Class, ClassRef, ClassSource, Config,
    DriverInfo, DriverKey, DriverState, Drivers, Found, MachineArgs, OpError, Peer, SecretRef,
    SecretSource, SecretValue, Target, Timing,
    source::{ClassChanged, SecretChanged, SourceError},
};
use orrery_proto::infragrpc::driver_side::{RegisterationResp, Response};
use orrery_proto::infragrpc::infragrpc_client::InfragrpcClient;
use orrery_proto::infragrpc::{DriverSide, McMside};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// An upper bound for what should take no time at all.
pub const SOON: Duration = Duration::from_secs(60);

pub struct Sources {
    pub classes: Mutex<HashMap<String, Class>>,
    pub named: Mutex<HashSet<(DriverKey, SecretRef)>>,
    pub secrets: Mutex<HashMap<SecretRef, SecretValue>>,
    pub class_changes: broadcast::Sender<ClassChanged>,
    pub secret_changes: broadcast::Sender<SecretChanged>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            classes: Mutex::default(),
            named: Mutex::default(),
            secrets: Mutex::default(),
            class_changes: broadcast::Sender::new(16),
            secret_changes: broadcast::Sender::new(16),
        }
    }
}

#[async_trait::async_trait]
impl ClassSource for Sources {
    async fn class(&self, at: &ClassRef, _: i32) -> Result<Option<Class>, SourceError> {
        if at.name == "broken" {
            return Err(SourceError { what: "class broken".into(), reason: "no store".into() });
        }
        Ok(self.classes.lock().get(&at.name).cloned())
    }

    async fn names_secret(&self, key: &DriverKey, secret: &SecretRef) -> Result<bool, SourceError> {
        Ok(self.named.lock().contains(&(key.clone(), secret.clone())))
    }

    fn changes(&self) -> broadcast::Receiver<ClassChanged> {
        self.class_changes.subscribe()
    }
}

#[async_trait::async_trait]
impl SecretSource for Sources {
    async fn secret(&self, at: &SecretRef) -> Result<Option<SecretValue>, SourceError> {
        Ok(self.secrets.lock().get(at).cloned())
    }

    fn changes(&self) -> broadcast::Receiver<SecretChanged> {
        self.secret_changes.subscribe()
    }
}

pub struct World {
    pub drivers: Drivers,
    pub sources: Arc<Sources>,
    connections: mpsc::Sender<Attributed<DuplexStream>>,
    _stop: DropGuard,
}

impl World {
    pub fn start() -> Self {
        Self::with(Timing::default())
    }

    pub fn with(timing: Timing) -> Self {
        let sources = Arc::new(Sources::default());
        let drivers = Drivers::start(Config {
            classes: sources.clone(),
            secrets: sources.clone(),
            gate: Arc::new(CertificateOrLoopback),
            timing,
        });
        let (connections, accepted) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let serving = drivers::transport(&timing)
            .add_service(drivers.service())
            .serve_with_incoming_shutdown(
                ReceiverStream::new(accepted).map(Ok::<_, std::io::Error>),
                stop.clone().cancelled_owned(),
            );
        tokio::spawn(serving);
        Self { drivers, sources, connections, _stop: stop.drop_guard() }
    }

    /// A connection from `peer`, made lazily and again whenever it is needed.
    pub fn channel(&self, peer: Peer) -> Channel {
        self.channel_until(peer, CancellationToken::new())
    }

    /// The same, but from `cut` on everything sent is lost without a word.
    pub fn channel_until(&self, peer: Peer, cut: CancellationToken) -> Channel {
        let connections = self.connections.clone();
        let connect = move |_| {
            let (connections, peer, cut) = (connections.clone(), peer.clone(), cut.clone());
            async move {
                let (ours, near) = tokio::io::duplex(1 << 20);
                let (far, theirs) = tokio::io::duplex(1 << 20);
                tokio::spawn(carry(near, far, cut));
                let gone = |_| std::io::Error::other("the server is gone");
                connections.send(Attributed::new(theirs, peer)).await.map_err(gone)?;
                Ok::<_, std::io::Error>(TokioIo::new(ours))
            }
        };
        Endpoint::from_static("http://edge").connect_with_connector_lazy(tower::service_fn(connect))
    }

    /// Connects and registers a driver that the test speaks for.
    pub async fn driver(&self, peer: Peer, hello: RegisterationResp) -> Scripted {
        let mut driver = Scripted::connect(self.channel(peer)).await;
        driver.register(hello).await;
        self.settled().await;
        driver
    }

    /// Waits until the published drivers are as wanted.
    pub async fn until(&self, wanted: impl Fn(&[DriverInfo]) -> bool) -> Arc<Vec<DriverInfo>> {
        let mut watch = self.drivers.watch();
        let seen = tokio::time::timeout(SOON * 10, watch.wait_for(|infos| wanted(infos))).await;
        seen.expect("the drivers become as wanted").expect("the edge lives").clone()
    }

    pub async fn until_state(&self, name: &str, state: impl Fn(&DriverState) -> bool) {
        self.until(|infos| infos.iter().any(|it| it.hello.name == name && state(&it.state))).await;
    }

    pub async fn list(&self, kind: &str) -> Result<Vec<Found>, OpError> {
        self.drivers.list(&target(kind), &machine(""), &call(5)).await
    }

    /// Lets everything that is ready happen.
    async fn settled(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    pub fn add_class(&self, name: &str, key: &DriverKey, revision: i64) {
        let path = format!("/apis/infra/v1/namespaces/shop/classes/{name}");
        let json = format!(r#"{{"metadata":{{"name":"{name}"}},"revision":{revision}}}"#);
        let class = Class { path, key: key.clone(), revision, json };
        self.sources.classes.lock().insert(name.into(), class);
    }

    pub fn add_secret(&self, name: &str, named_by: Option<&DriverKey>) -> SecretRef {
        let at = SecretRef { project: "shop".into(), name: name.into() };
        let value = SecretValue { revision: 7, json: format!(r#"{{"data":{{"k":"{name}"}}}}"#) };
        self.sources.secrets.lock().insert(at.clone(), value);
        if let Some(key) = named_by {
            self.sources.named.lock().insert((key.clone(), at.clone()));
        }
        at
    }
}

/// Carries bytes both ways until cut; then holds both ends open and carries nothing.
async fn carry(mut near: DuplexStream, mut far: DuplexStream, cut: CancellationToken) {
    let carried = tokio::io::copy_bidirectional(&mut near, &mut far);
    if cut.run_until_cancelled(carried).await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// A driver whose every message the test decides.
pub struct Scripted {
    pub client: InfragrpcClient<Channel>,
    pub to_server: Option<mpsc::Sender<DriverSide>>,
    pub from_server: Streaming<McMside>,
    pub token: String,
}

impl Scripted {
    pub async fn connect(channel: Channel) -> Self {
        let mut client = InfragrpcClient::new(channel);
        let (to_server, messages) = mpsc::channel(64);
        let opened = client.register(ReceiverStream::new(messages)).await.expect("stream opens");
        let from_server = opened.into_inner();
        Self { client, to_server: Some(to_server), from_server, token: String::new() }
    }

    pub async fn register(&mut self, hello: RegisterationResp) {
        let first = self.next().await;
        assert_eq!((first.operation_id, first.operation_type.as_str()), (1, "register"));
        self.token = first.session_token;
        self.answer(1, Response::RegisterResp(hello)).await;
    }

    /// The next operation; heartbeats are answered on the way.
    pub async fn next(&mut self) -> McMside {
        loop {
            let message = tokio::time::timeout(SOON, self.from_server.message()).await;
            let message = message.expect("in time").expect("stream lives").expect("a message");
            if message.operation_type != "heartbeat" {
                return message;
            }
            self.answer(0, Response::Heartbeat(Default::default())).await;
        }
    }

    /// Answers the next operation, whatever it is.
    pub async fn reply(&mut self, response: Response) {
        let asked = self.next().await;
        self.answer(asked.operation_id, response).await;
    }

    pub async fn answer(&self, operation_id: i32, response: Response) {
        self.send(DriverSide {
            operation_id,
            operation_type: String::new(),
            response: Some(response),
        })
        .await;
    }

    pub async fn send(&self, message: DriverSide) {
        let to_server = self.to_server.as_ref().expect("not hung up");
        to_server.send(message).await.expect("stream is open");
    }
}

pub fn loopback(port: u16) -> Peer {
    Peer { address: Some(([127, 0, 0, 1], port).into()), identity: None }
}

pub fn far(port: u16, identity: &str) -> Peer {
    let identity = (!identity.is_empty()).then(|| identity.to_owned());
    Peer { address: Some(([10, 0, 0, 1], port).into()), identity }
}

pub fn key(kind: &str) -> DriverKey {
    DriverKey::new(kind, "infra/v1")
}

pub fn mk_old(kind: &str, name: &str) -> RegisterationResp {
    RegisterationResp {
        name: name.into(),
        group: "infra".into(),
        kind: kind.into(),
        version: "v1".into(),
        ..Default::default()
    }
}

pub fn mk_new(kind: &str, name: &str) -> RegisterationResp {
    RegisterationResp {
        protocol_version: 1,
        capabilities: vec!["status".into(), "cancel".into()],
        instance_id: name.into(),
        max_concurrent: 32,
        ..mk_old(kind, name)
    }
}

pub fn target(kind: &str) -> Target {
    Target {
        key: key(kind),
        class: "/apis/infra/v1/namespaces/shop/classes/small".into(),
        class_revision: 4,
    }
}

pub fn machine(name: &str) -> MachineArgs {
    MachineArgs { name: name.into(), ..Default::default() }
}

pub fn call(seconds: u64) -> Call {
    Call::within(Duration::from_secs(seconds))
}

//! A server that says what the test tells it to, over a pipe.
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper_util::rt::TokioIo;
use orrery_driver::{Created, Driver, Error, Machine, Options, Request as Op};
use orrery_proto::infragrpc::driver_side::Response as Answer;
use orrery_proto::infragrpc::infragrpc_server::{Infragrpc, InfragrpcServer};
use orrery_proto::infragrpc::{
    DriverSide, MachineClass, MachineClassMeta, McMside, Secret, SecretMeta,
    mc_mside::OperationParams,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

const SOON: Duration = Duration::from_secs(120);

/// One registered stream, as the server sees it.
pub struct Session {
    pub to_driver: mpsc::Sender<Result<McMside, Status>>,
    pub from_driver: Streaming<DriverSide>,
}

impl Session {
    pub async fn send(&self, message: McMside) {
        self.to_driver.send(Ok(message)).await.expect("the driver listens");
    }

    pub async fn next(&mut self) -> DriverSide {
        let message = tokio::time::timeout(SOON, self.from_driver.message()).await;
        message.expect("in time").expect("the stream lives").expect("a message")
    }

    /// The next answer that is no heartbeat.
    pub async fn answer(&mut self) -> (i32, Answer) {
        loop {
            let message = self.next().await;
            if message.operation_type != "heartbeat" {
                return (message.operation_id, message.response.expect("an answer"));
            }
        }
    }
}

#[derive(Default)]
pub struct Reads {
    pub classes: AtomicUsize,
    pub secrets: AtomicUsize,
}

struct Fake {
    sessions: mpsc::Sender<Session>,
    reads: Arc<Reads>,
}

#[tonic::async_trait]
impl Infragrpc for Fake {
    type RegisterStream = BoxStream<'static, Result<McMside, Status>>;

    async fn register(
        &self,
        request: Request<Streaming<DriverSide>>,
    ) -> Result<Response<Self::RegisterStream>, Status> {
        let (to_driver, messages) = mpsc::channel(64);
        let session = Session { to_driver, from_driver: request.into_inner() };
        self.sessions.send(session).await.map_err(|_| Status::unavailable("test over"))?;
        Ok(Response::new(ReceiverStream::new(messages).boxed()))
    }

    async fn get_machine_class(
        &self,
        request: Request<MachineClassMeta>,
    ) -> Result<Response<MachineClass>, Status> {
        self.reads.classes.fetch_add(1, Ordering::SeqCst);
        let name = request.into_inner().name;
        if name == "missing" {
            let error = "there is no class missing".into();
            return Ok(Response::new(MachineClass { error, ..Default::default() }));
        }
        let data = r#"{"metadata":{"namespace":"shop"},"spec":{"secretRef":{"name":"cloud"}}}"#;
        Ok(Response::new(MachineClass { data: data.into(), ..Default::default() }))
    }

    async fn get_secret(&self, request: Request<SecretMeta>) -> Result<Response<Secret>, Status> {
        self.reads.secrets.fetch_add(1, Ordering::SeqCst);
        let data = match request.into_inner().secret_name.as_str() {
            "join" => r#"{"data":{"token":"dDBrM24="}}"#,
            "whole" => r#"{"data":{"userData":"b3du"}}"#,
            _ => r#"{"data":{"userData":"am9pbiAke29ycmVyeTp0b2tlbn0="}}"#,
        };
        Ok(Response::new(Secret { data: data.into(), ..Default::default() }))
    }
}

/// The server, the driver under test, and what the driver did.
pub struct World {
    pub sessions: mpsc::Receiver<Session>,
    pub reads: Arc<Reads>,
    pub driver: Arc<Probe>,
    pub stop: CancellationToken,
    pub running: tokio::task::JoinHandle<()>,
    _serving: DropGuard,
}

impl World {
    pub fn start() -> Self {
        let (sender, sessions) = mpsc::channel(16);
        let reads = Arc::new(Reads::default());
        let service = InfragrpcServer::new(Fake { sessions: sender, reads: reads.clone() });
        let (connections, accepted) = mpsc::channel(16);
        let serving = CancellationToken::new();
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming_shutdown(
            ReceiverStream::new(accepted).map(Ok::<_, std::io::Error>),
            serving.clone().cancelled_owned(),
        ));
        let connect = move |_| {
            let connections = connections.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 20);
                let gone = |_| std::io::Error::other("the server is gone");
                connections.send(theirs).await.map_err(gone)?;
                Ok::<_, std::io::Error>(TokioIo::new(ours))
            }
        };
        let channel: Channel = Endpoint::from_static("http://fake")
            .connect_with_connector_lazy(tower::service_fn(connect));
        let (driver, stop) = (Arc::new(Probe::default()), CancellationToken::new());
        let options = Options { max_concurrent: 4, ..Options::new("probe", "g", "K", "v1") };
        let running =
            tokio::spawn(orrery_driver::run(options, channel, driver.clone(), stop.clone()));
        Self { sessions, reads, driver, stop, running, _serving: serving.drop_guard() }
    }

    /// The next connection of the driver, registered.
    pub async fn session(&mut self, protocol_version: i32) -> Session {
        let session = tokio::time::timeout(SOON, self.sessions.recv()).await;
        let mut session = session.expect("the driver connects").expect("the server lives");
        session
            .send(McMside {
                operation_id: 1,
                operation_type: "register".into(),
                protocol_version,
                heartbeat_interval_ms: if protocol_version > 0 { 10_000 } else { 0 },
                ..Default::default()
            })
            .await;
        let (id, answer) = session.answer().await;
        let Answer::RegisterResp(said) = answer else { panic!("registers first") };
        assert_eq!((id, said.kind.as_str(), said.protocol_version), (1, "K", 1));
        session
    }
}

/// A driver that does as its machine's name says, and counts.
#[derive(Default)]
pub struct Probe {
    pub begun: AtomicUsize,
    pub dropped: Arc<AtomicUsize>,
    pub release: tokio::sync::Notify,
    pub user_data: Mutex<Vec<String>>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl Driver for Probe {
    async fn create(&self, request: &Op) -> Result<Created, Error> {
        let attempt = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        match request.machine_name.as_str() {
            "panic" => panic!("asked to"),
            "flaky" if attempt == 1 => return Err(Error::unavailable("not yet")),
            "wait" => self.release.notified().await,
            "hang" => {
                let _count = CountDrop(self.dropped.clone());
                std::future::pending::<()>().await;
            }
            "read" => {
                let class = request.class().await?;
                let user_data = request.user_data(&class).await?;
                self.user_data.lock().push(user_data);
            }
            _ => {}
        }
        Ok(Created { provider_id: format!("p{attempt}"), ..Created::default() })
    }

    async fn delete(&self, _request: &Op) -> Result<(), Error> {
        Ok(())
    }

    async fn list(&self, _request: &Op) -> Result<Vec<Machine>, Error> {
        Ok(vec![Machine { id: "p1".into(), ..Machine::default() }])
    }
}

pub fn operation(id: i32, name: &str, machine: &str, key: &str) -> McMside {
    let class = MachineClassMeta { name: "small".into(), revision: 4 };
    McMside {
        operation_id: id,
        operation_type: name.into(),
        operationparams: Some(OperationParams {
            machine_class_meta_data: Some(class),
            machine_id: "p1".into(),
            machine_name: machine.into(),
            ..Default::default()
        }),
        idempotency_key: key.into(),
        ..Default::default()
    }
}

//! A driver that knows only the first published contract: its messages are declared here by hand,
//! with the old fields and nothing else, and it talks over a real socket.
use crate::world::{Sources, call, key, machine, target};
use http::uri::PathAndQuery;
use orrery_machines::drivers::{self, *};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct ClassMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    revision: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SecretMeta {
    #[prost(string, tag = "1")]
    secret_name: String,
    #[prost(string, tag = "2")]
    name_space: String,
    #[prost(int32, tag = "3")]
    revision: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Data {
    #[prost(string, tag = "1")]
    data: String,
    #[prost(string, tag = "2")]
    error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Registration {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(string, tag = "4")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Created {
    #[prost(string, tag = "1")]
    provider_id: String,
    #[prost(string, tag = "2")]
    nodename: String,
    #[prost(string, tag = "3")]
    error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Deleted {
    #[prost(string, tag = "1")]
    error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Listed {
    #[prost(message, repeated, tag = "1")]
    list: Vec<Machine>,
    #[prost(string, tag = "2")]
    error: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Machine {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "3")]
    Register(Registration),
    #[prost(message, tag = "4")]
    Create(Created),
    #[prost(message, tag = "5")]
    Delete(Deleted),
    #[prost(message, tag = "6")]
    List(Listed),
}

#[derive(Clone, PartialEq, prost::Message)]
struct DriverSide {
    #[prost(int32, tag = "1")]
    operation_id: i32,
    #[prost(string, tag = "2")]
    operation_type: String,
    #[prost(oneof = "Answer", tags = "3, 4, 5, 6")]
    response: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Params {
    #[prost(message, optional, tag = "1")]
    class: Option<ClassMeta>,
    #[prost(string, tag = "2")]
    credentials: String,
    #[prost(string, tag = "3")]
    machine_id: String,
    #[prost(string, tag = "4")]
    machine_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct McmSide {
    #[prost(int32, tag = "1")]
    operation_id: i32,
    #[prost(string, tag = "2")]
    operation_type: String,
    #[prost(message, optional, tag = "3")]
    params: Option<Params>,
}

struct OldDriver {
    channel: Channel,
    machines: Vec<Machine>,
}

impl OldDriver {
    async fn get<T: prost::Message + 'static>(&self, method: &'static str, asked: T) -> Data {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.expect("connected");
        let codec: ProstCodec<T, Data> = ProstCodec::default();
        let path = PathAndQuery::from_static(method);
        let reply = grpc.unary(tonic::Request::new(asked), path, codec).await;
        reply.expect("answered").into_inner()
    }

    /// As the old library did: reads one message, works, answers, reads the next. Ends with the
    /// stream, and panics on an operation it does not know.
    async fn run(mut self, registered: mpsc::Sender<()>) {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.expect("connected");
        let (answers, outgoing) = mpsc::channel(1);
        let codec: ProstCodec<DriverSide, McmSide> = ProstCodec::default();
        let path = PathAndQuery::from_static("/infra.Infragrpc/Register");
        let request = tonic::Request::new(ReceiverStream::new(outgoing));
        let opened = grpc.streaming(request, path, codec).await.expect("opens");
        let mut operations = opened.into_inner();
        while let Ok(Some(asked)) = operations.message().await {
            let response = Some(self.answer(&asked).await);
            let operation_type = asked.operation_type.clone();
            let answer = DriverSide { operation_id: asked.operation_id, operation_type, response };
            if answers.send(answer).await.is_err() {
                return;
            }
            registered.try_send(()).ok();
        }
    }

    async fn answer(&mut self, asked: &McmSide) -> Answer {
        let params = asked.params.clone().unwrap_or_default();
        match asked.operation_type.as_str() {
            "register" => {
                assert_eq!(asked.operation_id, 1);
                Answer::Register(Registration {
                    name: "old".into(),
                    group: "infra".into(),
                    kind: "AWSMachineClass".into(),
                    version: "v1".into(),
                })
            }
            "create" => Answer::Create(self.create(params).await),
            "delete" => {
                self.machines.retain(|it| it.id != params.machine_id);
                Answer::Delete(Deleted::default())
            }
            "list" => Answer::List(Listed { list: self.machines.clone(), error: String::new() }),
            other => panic!("an old driver does not know {other}"),
        }
    }

    async fn create(&mut self, params: Params) -> Created {
        assert_eq!(params.credentials, "", "credentials do not travel with an operation");
        let meta = params.class.expect("the class is named");
        let class = self.get("/infra.Infragrpc/GetMachineClass", meta).await;
        assert!(class.data.contains(r#""name":"small""#), "{class:?}");
        let meta =
            SecretMeta { secret_name: "cloud".into(), name_space: "shop".into(), revision: 1 };
        let secret = self.get("/infra.Infragrpc/GetSecret", meta).await;
        assert!(secret.data.contains("userData"), "{}", secret.error);
        if params.machine_name == "bad" {
            return Created { error: "boom".into(), ..Default::default() };
        }
        let id = format!("i-{}", params.machine_name);
        self.machines.push(Machine { id: id.clone(), name: params.machine_name.clone() });
        Created { provider_id: id, nodename: params.machine_name, error: String::new() }
    }
}

fn filled_sources() -> Arc<Sources> {
    let sources = Arc::new(Sources::default());
    let at = SecretRef { project: "shop".into(), name: "cloud".into() };
    let key = key("AWSMachineClass");
    let path = "/apis/infra/v1/namespaces/shop/classes/small".into();
    let json = r#"{"metadata":{"name":"small"},"spec":{"ami":"ami-1"}}"#.into();
    let class = Class { path, key: key.clone(), revision: 4, json };
    sources.classes.lock().insert("small".into(), class);
    sources.named.lock().insert((key, at.clone()));
    let json = r#"{"data":{"userData":"I2Nsb3VkLWNvbmZpZw=="}}"#.into();
    sources.secrets.lock().insert(at, SecretValue { revision: 1, json });
    sources
}

async fn serve() -> (Drivers, String) {
    let sources = filled_sources();
    let timing = Timing { heartbeat: Duration::from_millis(50), ..Timing::default() };
    let drivers = Drivers::start(Config {
        classes: sources.clone(),
        secrets: sources,
        gate: Arc::new(CertificateOrLoopback),
        timing,
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let serving = drivers::transport(&timing)
        .add_service(drivers.service())
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    (drivers, format!("http://{address}"))
}

/// proves: MCH-01, MCH-02, MCH-03, MCH-04
#[tokio::test]
async fn a_driver_of_the_first_contract_works_unchanged() {
    let (drivers, address) = serve().await;
    let channel = Channel::from_shared(address).expect("an address").connect().await;
    let channel = channel.expect("connects");
    let (registered, mut seen) = mpsc::channel(1);
    let driver = tokio::spawn(OldDriver { channel, machines: Vec::new() }.run(registered));
    seen.recv().await.expect("registered");
    let mut watch = drivers.watch();
    watch.wait_for(|infos| !infos.is_empty()).await.expect("published");

    let wanted = target("AWSMachineClass");
    let limit = call(30);
    let (one, two) = (machine("one"), machine("two"));
    let (first, second) =
        tokio::join!(drivers.create(&wanted, &one, &limit), drivers.create(&wanted, &two, &limit));
    assert_eq!(first.expect("created").provider_id, "i-one");
    assert_eq!(second.expect("created").node_name, "two");
    let error = drivers.create(&wanted, &machine("bad"), &limit).await.expect_err("boom");
    assert_eq!((error.code(), error.retry()), (ErrorCode::Unknown, Retry::Soon));

    let mut gone = machine("one");
    gone.id = "i-one".into();
    drivers.delete(&wanted, &gone, &limit).await.expect("deleted");
    let left = drivers.list(&wanted, &machine(""), &limit).await.expect("listed");
    assert_eq!(left.iter().map(|it| it.provider_id.as_str()).collect::<Vec<_>>(), ["i-two"]);
    assert_eq!(drivers.status(&wanted, &gone, &limit).await.expect("listed"), None);
    drivers.shutdown().await;
    driver.await.expect("the old driver met nothing it does not know");
}

//! Calls of every kind through the proxy, with tonic on both sides.
use crate::{
    echo::{self, Client, Event, to},
    world::{Registry, registry, soon},
};
use futures::StreamExt;
use orrery_volumes::{
    Address, Change, ControllerDirectory, ControllerId, DirectoryError, Entry, ProxyConfig,
    ServeConfig,
};
use std::time::Duration;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::DropGuard;
use tonic::{Code, Request};

struct World {
    registry: Registry,
    client: Client,
    events: mpsc::Receiver<Event>,
    echo: Option<DropGuard>,
}

async fn world() -> World {
    let registry = registry(ServeConfig::default()).await;
    let (address, events, echo) = echo::start().await;
    registry.register("host-1", &address).await;
    let client = Client::new(registry.channel().await);
    World { registry, client, events, echo: Some(echo) }
}

/// proves: VOL-03
#[tokio::test]
async fn unary_calls_pass_with_their_metadata() {
    let mut world = world().await;
    let mut request = to("host-1", b"hello".to_vec());
    let metadata = request.metadata_mut();
    metadata.append("x-many", "one".parse().unwrap());
    metadata.append("x-many", "two".parse().unwrap());
    metadata.append_bin("x-raw-bin", tonic::metadata::MetadataValue::from_bytes(&[0, 1, 255]));
    let response = soon(world.client.unary("Unary", request)).await.unwrap();

    let many: Vec<_> = response.metadata().get_all("x-many").iter().collect();
    assert_eq!(many, ["one", "two"]);
    let raw = response.metadata().get_bin("x-raw-bin").unwrap().to_bytes().unwrap();
    assert_eq!(raw.as_ref(), [0, 1, 255]);
    assert_eq!(response.into_inner(), b"hello");
}

/// proves: VOL-03
#[tokio::test]
async fn errors_pass_with_code_message_details_and_metadata() {
    let mut world = world().await;
    let status = soon(world.client.unary("Fail", to("host-1", vec![7; 3]))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::DataLoss, "what — 100%\nbroken"));
    assert_eq!(status.details(), [7; 3]);
    let why: Vec<_> = status.metadata().get_all("x-why").iter().collect();
    assert_eq!(why, ["one", "two"]);
    let raw = status.metadata().get_bin("x-why-bin").unwrap().to_bytes().unwrap();
    assert_eq!(raw.as_ref(), [0, 255]);

    let status = soon(world.client.unary("Missing", to("host-1", vec![]))).await.unwrap_err();
    assert_eq!(status.message(), "no such method in test.Echo", "the controller's own answer");
}

/// proves: VOL-03
#[tokio::test]
async fn streams_of_all_kinds_pass() {
    let mut world = world().await;
    let thousand = futures::stream::repeat_with(|| vec![1; 1000]).take(1000);
    let mut counted = soon(world.client.stream("Count", to("host-1", thousand))).await.unwrap();
    assert_eq!(counted.get_mut().message().await.unwrap().unwrap(), b"1000 1000000");

    let one = futures::stream::iter([b"again".to_vec()]);
    let repeated = soon(world.client.stream("Repeat", to("host-1", one))).await.unwrap();
    let repeated: Vec<_> = repeated.into_inner().map(Result::unwrap).collect().await;
    assert_eq!(repeated, vec![b"again".to_vec(); 10]);

    let (send, receive) = mpsc::channel(1);
    let request = to("host-1", ReceiverStream::new(receive));
    let mut chat = soon(world.client.stream("Chat", request)).await.unwrap().into_inner();
    for word in ["ping", "pong"] {
        send.send(word.into()).await.unwrap();
        assert_eq!(soon(chat.message()).await.unwrap().unwrap(), word.as_bytes());
    }
    send.send(b"stop".to_vec()).await.unwrap();
    let status = soon(chat.message()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, "stopped"));
}

/// proves: VOL-03
#[tokio::test]
async fn large_messages_pass_under_flow_control() {
    let mut world = world().await;
    let large: Vec<u8> = (0..8 << 20).map(|index: u32| (index % 251) as u8).collect();
    let response = soon(world.client.unary("Unary", to("host-1", large.clone()))).await.unwrap();
    assert!(response.into_inner() == large, "8 MiB came back changed");
}

/// proves: VOL-03
#[tokio::test]
async fn many_streams_at_once_do_not_mix() {
    let world = world().await;
    let call = |index: u32| {
        let mut client = world.client.clone();
        async move {
            let messages = (0..50u32).map(move |turn| format!("{index}/{turn}").into_bytes());
            let expect: Vec<Vec<u8>> = messages.clone().collect();
            let request = to("host-1", futures::stream::iter(messages));
            let stream = client.stream("Chat", request).await.unwrap().into_inner();
            let answers: Vec<_> = stream.map(Result::unwrap).collect().await;
            assert_eq!(answers, expect);
        }
    };
    soon(futures::future::join_all((0..64).map(call))).await;
}

/// proves: VOL-03
#[tokio::test]
async fn the_controller_sees_a_cancellation() {
    let mut world = world().await;
    let mut client = world.client.clone();
    let call = tokio::spawn(async move { client.unary("Hang", to("host-1", vec![])).await });
    assert_eq!(soon(world.events.recv()).await, Some(Event::Started(None)));
    call.abort();
    assert_eq!(soon(world.events.recv()).await, Some(Event::Cancelled));
}

/// proves: VOL-03
#[tokio::test]
async fn deadlines_pass_and_end_the_call_on_both_sides() {
    let mut world = world().await;
    let mut request = to("host-1", vec![]);
    request.set_timeout(Duration::from_millis(300));
    let status = soon(world.client.unary("Hang", request)).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    let started = soon(world.events.recv()).await;
    assert_eq!(started, Some(Event::Started(Some("300000u".into()))));
    assert_eq!(soon(world.events.recv()).await, Some(Event::Cancelled));
}

/// proves: VOL-04
#[tokio::test]
async fn calls_without_a_controller_are_answered_by_the_registry() {
    let mut world = world().await;
    let cases: [(Option<&str>, Code); 3] = [
        (None, Code::Unimplemented),
        (Some("host-2"), Code::Unavailable),
        (Some("host/1"), Code::InvalidArgument),
    ];
    for (id, code) in cases {
        let request = id.map_or(Request::new(vec![]), |id| to(id, vec![]));
        let status = soon(world.client.unary("Unary", request)).await.unwrap_err();
        assert_eq!(status.code(), code, "{id:?}: {status}");
    }
    world.registry.register("host-1", "").await;
    let status = soon(world.client.unary("Unary", to("host-1", vec![]))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "removed: {status}");
}

/// proves: VOL-04
#[tokio::test]
async fn a_controller_that_cannot_be_reached_is_unavailable_and_the_message_says_why() {
    let mut world = world().await;
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    world.registry.register("host-2", &unused.to_string()).await;
    let status = soon(world.client.unary("Unary", to("host-2", vec![]))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let message = status.message();
    assert!(message.contains("host-2") && message.contains(&unused.to_string()), "{message}");
    assert!(message.contains("refused"), "{message}");
}

/// A listener that accepts and never speaks: the handshake is all that can be waited for.
#[tokio::test]
async fn the_deadline_also_limits_the_time_to_connect() {
    let registry = registry(ServeConfig {
        proxy: ProxyConfig { connect_timeout: Duration::from_millis(200), ..Default::default() },
        ..Default::default()
    })
    .await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    registry.register("host-1", &silent.local_addr().unwrap().to_string()).await;
    let mut client = Client::new(registry.channel().await);
    let mut request = to("host-1", vec![]);
    request.metadata_mut().insert("grpc-timeout", "100m".parse().unwrap());
    let status = soon(client.unary("Unary", request)).await.unwrap_err();
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
}

/// proves: VOL-03
#[tokio::test]
async fn a_restarted_or_moved_controller_is_reached_again() {
    let mut world = world().await;
    soon(world.client.unary("Unary", to("host-1", vec![1]))).await.unwrap();

    drop(world.echo.take());
    let (moved, _events, _echo) = echo::start().await;
    world.registry.register("host-1", &moved).await;
    soon(world.client.unary("Unary", to("host-1", vec![2]))).await.unwrap();
}

/// proves: VOL-03
#[tokio::test]
async fn an_idle_connection_is_closed_and_the_next_call_opens_another() {
    let registry = registry(ServeConfig {
        proxy: ProxyConfig { idle_timeout: Duration::from_millis(50), ..Default::default() },
        ..Default::default()
    })
    .await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    registry.register("host-1", &listener.local_addr().unwrap().to_string()).await;
    let mut client = Client::new(registry.channel().await);
    for _ in 0..2 {
        let served = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_request, mut respond) = connection.accept().await.unwrap().unwrap();
            let response = tonic::Status::aborted("seen").into_http();
            respond.send_response(response, true).unwrap();
            while connection.accept().await.is_some() {}
        };
        let call = client.unary("Unary", to("host-1", vec![]));
        let (status, ()) = soon(futures::future::join(call, served)).await;
        assert_eq!(status.unwrap_err().code(), Code::Aborted);
    }
}

/// proves: VOL-03
#[tokio::test]
async fn a_unix_socket_is_an_address_too() {
    let registry = registry(ServeConfig::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    registry.register("host-1", &format!("unix://{}", path.display())).await;
    let mut client = Client::new(registry.channel().await);
    let served = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_request, mut respond) = connection.accept().await.unwrap().unwrap();
        respond.send_response(tonic::Status::aborted("seen").into_http(), true).unwrap();
        connection.accept().await
    };
    let call = client.unary("Unary", to("host-1", vec![]));
    let both = futures::future::select(Box::pin(call), Box::pin(served));
    match soon(both).await {
        futures::future::Either::Left((status, _)) => {
            assert_eq!(status.unwrap_err().code(), Code::Aborted);
        }
        futures::future::Either::Right(_) => panic!("the connection ended before the reply"),
    }
}

/// A directory may lose its source of changes; the registry goes on without.
#[tokio::test]
async fn a_directory_without_changes_does_not_stop_the_registry() {
    struct Quiet(orrery_volumes::MemoryDirectory);

    #[tonic::async_trait]
    impl ControllerDirectory for Quiet {
        async fn put(&self, entry: Entry) -> Result<(), DirectoryError> {
            self.0.put(entry).await
        }
        async fn remove(&self, id: &ControllerId) -> Result<(), DirectoryError> {
            self.0.remove(id).await
        }
        async fn get(&self, id: &ControllerId) -> Result<Option<Entry>, DirectoryError> {
            self.0.get(id).await
        }
        async fn list(&self) -> Result<Vec<Entry>, DirectoryError> {
            self.0.list().await
        }
        fn changes(&self) -> futures::stream::BoxStream<'static, Change> {
            futures::stream::empty().boxed()
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = listener.local_addr().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    let directory = std::sync::Arc::new(Quiet(Default::default()));
    let (address, _events, _echo) = echo::start().await;
    let (id, address) = (ControllerId::parse("host-1").unwrap(), Address::parse(&address).unwrap());
    directory.put(Entry { id, address }).await.unwrap();
    tokio::spawn(orrery_volumes::serve(listener, ServeConfig::default(), directory, stop));
    let channel = tonic::transport::Channel::from_shared(format!("http://{registry}")).unwrap();
    let mut client = Client::new(channel.connect().await.unwrap());
    soon(client.unary("Unary", to("host-1", vec![1]))).await.unwrap();
}

/// proves: VOL-03
#[tokio::test]
async fn a_storm_of_cancellations_does_not_hurt_the_others() {
    let mut world = world().await;
    for _ in 0..4 {
        let hang = |_| {
            let mut client = world.client.clone();
            tokio::spawn(async move { client.unary("Hang", to("host-1", vec![])).await })
        };
        let calls: Vec<_> = (0..8).map(hang).collect();
        let mut seen = (0, 0);
        while seen.0 < 8 {
            assert_eq!(soon(world.events.recv()).await, Some(Event::Started(None)));
            seen.0 += 1;
        }
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        while seen.1 < 8 {
            assert_eq!(soon(world.events.recv()).await, Some(Event::Cancelled));
            seen.1 += 1;
        }
        soon(world.client.unary("Unary", to("host-1", vec![1]))).await.unwrap();
    }
}

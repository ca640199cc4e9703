//! A gRPC service that the registry has never heard of, and a client for it. Its messages are
//! `google.protobuf.BytesValue`, so no contract of its own is needed.
use futures::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use std::{
    convert::Infallible,
    task::{Context, Poll},
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    metadata::MetadataMap,
    server::{self, Grpc},
    transport::Channel,
};
use tonic_prost::ProstCodec;

pub type Message = Vec<u8>;
/// Larger than any message of the tests; gRPC's own limit of 4 MiB is not what is tested here.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What happened at the service.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A call of `Hang` arrived, with this `grpc-timeout`.
    Started(Option<String>),
    /// A call of `Hang` was dropped before it ended, which is how cancellation looks from inside.
    Cancelled,
}

#[derive(Clone)]
pub struct Echo {
    events: mpsc::Sender<Event>,
}

/// Serves an echo until the guard is dropped.
pub async fn start() -> (String, mpsc::Receiver<Event>, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (events, received) = mpsc::channel(64);
    let stop = CancellationToken::new();
    let serving = tonic::transport::Server::builder()
        .add_service(Echo { events })
        .serve_with_incoming_shutdown(
            TcpListenerStream::new(listener),
            stop.clone().cancelled_owned(),
        );
    tokio::spawn(serving);
    (address, received, stop.drop_guard())
}

impl server::NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let echo = self.clone();
        let mut grpc = Grpc::new(ProstCodec::<Message, Message>::default())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/test.Echo/Unary" => grpc.unary(Unary, request).await,
                "/test.Echo/Fail" => grpc.unary(Fail, request).await,
                "/test.Echo/Hang" => grpc.unary(echo, request).await,
                "/test.Echo/Count" => grpc.client_streaming(Count, request).await,
                "/test.Echo/Repeat" => grpc.server_streaming(Repeat, request).await,
                "/test.Echo/Chat" => grpc.streaming(Chat, request).await,
                _ => Status::unimplemented("no such method in test.Echo").into_http(),
            })
        })
    }
}

/// Sends the message back, and the metadata that starts with `x-` as metadata of the reply.
struct Unary;
impl server::UnaryService<Message> for Unary {
    type Response = Message;
    type Future = BoxFuture<'static, Result<Response<Message>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let headers = request.metadata().clone().into_headers();
        let mut response = Response::new(request.into_inner());
        let mut kept = http::HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with("x-")) {
            kept.append(name, value.clone());
        }
        *response.metadata_mut() = MetadataMap::from_headers(kept);
        Box::pin(async { Ok(response) })
    }
}

/// Fails with a status that has everything a status can have.
struct Fail;
impl server::UnaryService<Message> for Fail {
    type Response = Message;
    type Future = BoxFuture<'static, Result<Response<Message>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let mut metadata = MetadataMap::new();
        metadata.append("x-why", "one".parse().unwrap());
        metadata.append("x-why", "two".parse().unwrap());
        metadata.append_bin("x-why-bin", tonic::metadata::MetadataValue::from_bytes(&[0, 255]));
        let details = request.into_inner().into();
        let message = "what — 100%\nbroken";
        let status =
            Status::with_details_and_metadata(tonic::Code::DataLoss, message, details, metadata);
        Box::pin(async { Err(status) })
    }
}

/// Never answers, and tells when it is dropped.
impl server::UnaryService<Message> for Echo {
    type Response = Message;
    type Future = BoxFuture<'static, Result<Response<Message>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        struct OnDrop(mpsc::Sender<Event>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.try_send(Event::Cancelled).unwrap();
            }
        }
        let timeout = request.metadata().get("grpc-timeout");
        let timeout = timeout.map(|value| value.to_str().unwrap().to_owned());
        let events = self.events.clone();
        Box::pin(async move {
            events.try_send(Event::Started(timeout)).unwrap();
            let _guard = OnDrop(events);
            std::future::pending().await
        })
    }
}

/// Answers how many messages and bytes came.
struct Count;
impl server::ClientStreamingService<Message> for Count {
    type Response = Message;
    type Future = BoxFuture<'static, Result<Response<Message>, Status>>;
    fn call(&mut self, request: Request<Streaming<Message>>) -> Self::Future {
        Box::pin(async {
            let (mut messages, mut bytes) = (0, 0);
            let mut stream = request.into_inner();
            while let Some(message) = stream.message().await? {
                messages += 1;
                bytes += message.len();
            }
            Ok(Response::new(format!("{messages} {bytes}").into_bytes()))
        })
    }
}

/// Sends the message ten times.
struct Repeat;
impl server::ServerStreamingService<Message> for Repeat {
    type Response = Message;
    type ResponseStream = BoxStream<'static, Result<Message, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let message = request.into_inner();
        let stream = futures::stream::repeat_with(move || Ok(message.clone())).take(10);
        Box::pin(async { Ok(Response::new(stream.boxed())) })
    }
}

/// Answers every message at once; "stop" ends the conversation with an error.
struct Chat;
impl server::StreamingService<Message> for Chat {
    type Response = Message;
    type ResponseStream = BoxStream<'static, Result<Message, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;
    fn call(&mut self, request: Request<Streaming<Message>>) -> Self::Future {
        let answer = |message: Result<Message, Status>| match message {
            Ok(message) if message == b"stop" => Err(Status::out_of_range("stopped")),
            other => other,
        };
        let stream = request.into_inner().map(answer).boxed();
        Box::pin(async { Ok(Response::new(stream)) })
    }
}

/// Calls the echo through whatever the channel leads to.
#[derive(Clone)]
pub struct Client {
    grpc: tonic::client::Grpc<Channel>,
}

/// A request for the controller `id`.
pub fn to<T>(id: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("controllerid", id.parse().unwrap());
    request
}

impl Client {
    pub fn new(channel: Channel) -> Self {
        let grpc = tonic::client::Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Self { grpc }
    }

    pub async fn unary(
        &mut self,
        method: &str,
        request: Request<Message>,
    ) -> Result<Response<Message>, Status> {
        self.grpc.ready().await.unwrap();
        let path = format!("/test.Echo/{method}").try_into().unwrap();
        self.grpc.unary(request, path, ProstCodec::<Message, Message>::default()).await
    }

    pub async fn stream<S>(
        &mut self,
        method: &str,
        request: Request<S>,
    ) -> Result<Response<Streaming<Message>>, Status>
    where
        S: Stream<Item = Message> + Send + 'static,
    {
        self.grpc.ready().await.unwrap();
        let path = format!("/test.Echo/{method}").try_into().unwrap();
        self.grpc.streaming(request, path, ProstCodec::<Message, Message>::default()).await
    }
}

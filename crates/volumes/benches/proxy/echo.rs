//! A service that the proxies have never heard of: it sends back what it gets, and large messages.
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::{Request, Response, Status, body::Body, server};
use tonic_prost::ProstCodec;

pub type Message = Vec<u8>;

#[derive(Clone)]
pub struct Echo;

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut grpc = server::Grpc::new(ProstCodec::<Message, Message>::default());
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/bench.Echo/Unary" => grpc.unary(Unary, request).await,
                "/bench.Echo/Stream" => grpc.server_streaming(Stream, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

struct Unary;
impl server::UnaryService<Message> for Unary {
    type Response = Message;
    type Future = std::future::Ready<Result<Response<Message>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

/// As many messages of 1 MB as the request has bytes.
struct Stream;
impl server::ServerStreamingService<Message> for Stream {
    type Response = Message;
    type ResponseStream = BoxStream<'static, Result<Message, Status>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;
    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let count = request.into_inner().len();
        let stream = futures::stream::repeat_with(|| Ok(vec![7; 1 << 20])).take(count);
        std::future::ready(Ok(Response::new(stream.boxed())))
    }
}

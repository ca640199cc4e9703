//! The two services and their methods.
use super::codec::{Frame, XdsCodec};
use super::driver::{Frames, Opening};
use super::wire::WireRequest;
use crate::control::Control;
use crate::identity::Peer;
use crate::xds::Kind;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

const STREAM_ENDPOINTS: &str =
    "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints";
const DELTA_ENDPOINTS: &str = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints";
const STREAM_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA_AGGREGATED: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// Endpoints, on streams of their own.
#[derive(Clone)]
pub struct EndpointService(Method);

/// Everything, on one stream.
#[derive(Clone)]
pub struct AggregatedService(Method);

impl EndpointService {
    /// Streams end when `stop` is cancelled.
    pub fn new(control: Arc<Control>, stop: CancellationToken) -> Self {
        Self(Method { control, stop, only: Some(Kind::Endpoints) })
    }
}

impl AggregatedService {
    /// Streams end when `stop` is cancelled.
    pub fn new(control: Arc<Control>, stop: CancellationToken) -> Self {
        Self(Method { control, stop, only: None })
    }
}

impl NamedService for EndpointService {
    const NAME: &'static str = "envoy.service.endpoint.v3.EndpointDiscoveryService";
}

impl NamedService for AggregatedService {
    const NAME: &'static str = "envoy.service.discovery.v3.AggregatedDiscoveryService";
}

impl Service<http::Request<Body>> for EndpointService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.0.clone();
        match request.uri().path() {
            STREAM_ENDPOINTS => method.serve::<DiscoveryRequest>(request),
            DELTA_ENDPOINTS => method.serve::<DeltaDiscoveryRequest>(request),
            _ => not_served(),
        }
    }
}

impl Service<http::Request<Body>> for AggregatedService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.0.clone();
        match request.uri().path() {
            STREAM_AGGREGATED => method.serve::<DiscoveryRequest>(request),
            DELTA_AGGREGATED => method.serve::<DeltaDiscoveryRequest>(request),
            _ => not_served(),
        }
    }
}

fn not_served() -> BoxFuture<http::Response<Body>, Infallible> {
    let status = Status::unimplemented("only the streaming variants are served");
    Box::pin(async move { Ok(status.into_http()) })
}

/// A method of either service; which variant of the protocol it speaks is in the request type.
#[derive(Clone)]
struct Method {
    control: Arc<Control>,
    stop: CancellationToken,
    only: Option<Kind>,
}

impl Method {
    fn serve<R: WireRequest>(
        self,
        request: http::Request<Body>,
    ) -> BoxFuture<http::Response<Body>, Infallible> {
        Box::pin(async move {
            let mut grpc = Grpc::new(XdsCodec::<R>::default());
            Ok(grpc.streaming(self, request).await)
        })
    }
}

impl<R: WireRequest> StreamingService<R> for Method {
    type Response = Frame;
    type ResponseStream = Frames;
    type Future = BoxFuture<Response<Frames>, Status>;

    fn call(&mut self, request: Request<Streaming<R>>) -> Self::Future {
        // Without the transport's word there is no identity, and nothing that would allow a plain
        // connection: the peer counts as an encrypted one without certificate.
        let unknown = Peer { encrypted: true, ..Peer::default() };
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or(unknown);
        let Self { control, stop, only } = self.clone();
        let opening = Opening { control, stop, peer, only };
        let inbound = request.into_inner();
        Box::pin(async move { opening.open(inbound).await.map(Response::new) })
    }
}

//! What a listener serves: everything by the router, and the calls that programs make most on a shorter way.
use crate::browsers::{self, Browsers, is_grpc};
use crate::connection::aside;
use crate::gate::Gate;
use crate::grpc::hub::{HubService, coded_answer};
use crate::identity::{Ending, proven};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use futures::future::BoxFuture;
use http_body_util::Either;
use hyper::body::Incoming;
use orrery_access::Access;
use orrery_fleet::middleware::Peer;
use orrery_proto::hub::v1::hub_server::HubServer;
use std::convert::Infallible;
use std::sync::Arc;
use tower::{Service as _, ServiceExt as _};

/// The service whose calls need no router: what stands in front of it there stands in front of it here.
const HUB: &str = "/orrery.hub.v1.Hub/";
/// The one of its calls that may have much to write.
const LIST: &str = "/orrery.hub.v1.Hub/List";

/// Cheap to clone.
#[derive(Clone)]
pub struct Services {
    router: Router,
    hub: Arc<Hub>,
    browsers: Browsers,
}

struct Hub {
    service: HubServer<HubService>,
    access: Access,
    gate: Gate,
}

/// The body of an answer: of gRPC without a detour, or of the router.
type Answer = Either<tonic::body::Body, Body>;

impl Services {
    /// `browsers` is asked about what comes over plain connections.
    pub fn new(
        router: Router,
        service: HubServer<HubService>,
        access: Access,
        gate: Gate,
        browsers: Browsers,
    ) -> Self {
        Self { router, hub: Arc::new(Hub { service, access, gate }), browsers }
    }

    /// The same for the one at the other end of a connection.
    pub fn of(self, peer: Peer) -> Connected {
        Connected { services: self, peer: Arc::new(peer) }
    }

    async fn call(self, mut request: Request<Incoming>, peer: Arc<Peer>) -> Response<Answer> {
        request.extensions_mut().insert(Peer::clone(&peer));
        let grpc = is_grpc(request.headers());
        let refusal = match peer.encrypted {
            false => self.browsers.refuses(&request, grpc),
            true => browsers::refuses_encrypted(&request, peer.identity.is_some()),
        };
        if let Some(why) = refusal {
            self.hub.gate.refused(&request, StatusCode::FORBIDDEN, &why);
            return forbidden(&request, why).map(Either::Right);
        }
        if !grpc {
            // Lists, and everything else that is large, is written as JSON there.
            return aside(self.routed(request, peer)).await;
        }
        if !is_hub_call(&request) {
            return self.routed(request, peer).await;
        }
        let Hub { service, access, gate } = &*self.hub;
        let proof = match proven(access, gate, &mut request).await {
            Ok(proof) => proof,
            Err(refusal) => return refusal.map(Either::Right),
        };
        if !is_known(&request) {
            // Refused there, and written down.
            return self.routed(request, peer).await;
        }
        let may_be_long = request.uri().path() == LIST;
        let answering = service.clone().call(request);
        let Ok(response) = if may_be_long { aside(answering).await } else { answering.await };
        let response = coded_answer(response);
        match proof {
            None => response.map(Either::Left),
            Some(proof) => {
                let response = response.map(Body::new);
                Ending::around(response, access.clone(), proof).map(Either::Right)
            }
        }
    }

    async fn routed(self, mut request: Request<Incoming>, peer: Arc<Peer>) -> Response<Answer> {
        request.extensions_mut().insert(crate::mesh::peer(&peer));
        let Ok(response) = self.router.oneshot(request.map(Body::new)).await;
        response.map(Either::Right)
    }
}

fn forbidden<B>(request: &Request<B>, why: String) -> Response<Body> {
    match is_grpc(request.headers()) {
        true => tonic::Status::permission_denied(why).into_http(),
        false => crate::rest::forbidden(why),
    }
}

/// Of a call of gRPC.
fn is_hub_call<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST && request.uri().path().starts_with(HUB)
}

/// Whether the one who asks is anybody.
fn is_known<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Peer>().is_some_and(Peer::is_known)
}

/// The services as one connection has them.
#[derive(Clone)]
pub struct Connected {
    services: Services,
    peer: Arc<Peer>,
}

impl hyper::service::Service<Request<Incoming>> for Connected {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (services, peer) = (self.services.clone(), self.peer.clone());
        Box::pin(async move { Ok(services.call(request, peer).await) })
    }
}

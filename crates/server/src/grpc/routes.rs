//! The services of gRPC on one port.
use super::hub::HubService;
use super::identity::IdentityService;
use super::reflection;
use super::replicas::ReplicasService;
use crate::api::Front;
use crate::{Connections, mesh};
use orrery_fleet::Fleet;
use orrery_fleet::agents::grpc::AgentService;
use orrery_fleet::commander::grpc::CommanderService;
use orrery_fleet::peers::PeerService;
use orrery_hub::Hub;
use orrery_mesh::hub::Mesh;
use orrery_proto::fleet::v1::agent_connection_server::AgentConnectionServer;
use orrery_proto::hub::v1::hub_server::HubServer;
use orrery_proto::identity::v1::identity_server::IdentityServer;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everything but joining.
pub fn all(
    front: Front,
    hub: &Hub,
    connections: &Connections,
    fleet: Arc<Fleet>,
    (mesh, stop): (&Mesh, &CancellationToken),
) -> axum::Router {
    let (health_reporter, health) = tonic_health::server::health_reporter();
    let serving = async move {
        health_reporter.set_serving::<HubServer<HubService>>().await;
        health_reporter.set_serving::<AgentConnectionServer<AgentService>>().await;
    };
    futures::executor::block_on(serving);
    let mut routes = tonic::service::Routes::builder();
    routes
        .add_service(HubService::server(front))
        .add_service(ReplicasService::server(hub.clone()))
        .add_service(AgentService::server(connections.agents.clone()))
        .add_service(CommanderService::server(connections.commanders.clone()))
        .add_service(PeerService::server(fleet))
        .add_service(health)
        .add_service(reflection::v1())
        .add_service(reflection::v1alpha());
    mesh::serve(&mut routes, mesh, stop);
    routes.routes().into_axum_router()
}

/// Joining and renewing, outside of what is for people.
pub fn joining(identity: IdentityServer<IdentityService>) -> axum::Router {
    let mut routes = tonic::service::Routes::builder();
    routes.add_service(identity);
    routes.routes().into_axum_router().reset_fallback()
}

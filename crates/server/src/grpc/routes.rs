//! The services of gRPC on one port.
use super::hub::HubService;
use super::identity::IdentityService;
use crate::api::Front;
use crate::{Connections, Error, mesh};
use orrery_fleet::Fleet;
use orrery_fleet::agents::grpc::AgentService;
use orrery_fleet::commander::grpc::CommanderService;
use orrery_fleet::peers::PeerService;
use orrery_mesh::hub::Mesh;
use orrery_proto::fleet::v1::agent_connection_server::AgentConnectionServer;
use orrery_proto::hub::v1::hub_server::HubServer;
use orrery_proto::identity::v1::identity_server::IdentityServer;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the port has that descriptors tell of; those of xDS are Envoy's, and known to whoever speaks it.
const SERVICES: [&str; 8] = [
    "orrery.hub.v1.Hub",
    "orrery.fleet.v1.AgentConnection",
    "orrery.fleet.v1.CommanderConnection",
    "orrery.fleet.v1.ServerConnection",
    "orrery.identity.v1.Identity",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Everything but joining.
pub fn all(
    front: Front,
    connections: &Connections,
    fleet: Arc<Fleet>,
    (mesh, stop): (&Mesh, &CancellationToken),
) -> Result<axum::Router, Error> {
    let (health_reporter, health) = tonic_health::server::health_reporter();
    let serving = async move {
        health_reporter.set_serving::<HubServer<HubService>>().await;
        health_reporter.set_serving::<AgentConnectionServer<AgentService>>().await;
    };
    futures::executor::block_on(serving);
    let mut routes = tonic::service::Routes::builder();
    routes
        .add_service(HubService::server(front))
        .add_service(AgentService::server(connections.agents.clone()))
        .add_service(CommanderService::server(connections.commanders.clone()))
        .add_service(PeerService::server(fleet))
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    mesh::serve(&mut routes, mesh, stop);
    Ok(routes.routes().into_axum_router())
}

/// What this port says of itself: the services that it has, and not all that are defined. Tools ask in two
/// versions for that.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    let builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(orrery_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    SERVICES.into_iter().fold(builder, tonic_reflection::server::Builder::with_service_name)
}

/// Joining and renewing, outside of what is for people.
pub fn joining(identity: IdentityServer<IdentityService>) -> axum::Router {
    let mut routes = tonic::service::Routes::builder();
    routes.add_service(identity);
    routes.routes().into_axum_router().reset_fallback()
}

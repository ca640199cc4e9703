//! gRPC reflection, made when somebody asks for it: few ever do, and it keeps every contract in memory.
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_reflection::server::{Builder, v1, v1alpha};

/// A service that is made by its first call.
#[derive(Clone)]
pub struct Late<S> {
    made: Arc<OnceLock<S>>,
    make: fn() -> S,
}

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

const MADE: &str = "the contracts are part of the program, and a test makes this of them";

pub fn v1() -> Late<v1::ServerReflectionServer<impl v1::ServerReflection>> {
    Late { made: Arc::default(), make: || reflection().build_v1().expect(MADE) }
}

/// For older tools, which know no other.
pub fn v1alpha() -> Late<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>> {
    Late { made: Arc::default(), make: || reflection().build_v1alpha().expect(MADE) }
}

/// What this port says of itself: the services that it has, and not all that are defined.
fn reflection() -> Builder<'static> {
    let builder = Builder::configure()
        .register_encoded_file_descriptor_set(orrery_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // Each version of reflection tells of the other, too: tools ask one of them about every service.
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET);
    SERVICES.into_iter().fold(builder, Builder::with_service_name)
}

impl<S: NamedService> NamedService for Late<S> {
    const NAME: &'static str = S::NAME;
}

impl<R, S: Service<R, Error = Infallible> + Clone> Service<R> for Late<S> {
    type Response = S::Response;
    type Error = Infallible;
    type Future = S::Future;

    /// What gRPC services are made of is always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> S::Future {
        self.made.get_or_init(self.make).clone().call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_can_be_made() {
        let (late, older) = (v1(), v1alpha());
        assert!(late.made.get().is_none(), "nobody has asked yet");
        late.made.get_or_init(late.make);
        older.made.get_or_init(older.make);
    }
}

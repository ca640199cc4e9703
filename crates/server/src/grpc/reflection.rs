//! gRPC reflection, made when somebody asks for it: few ever do, and it keeps every contract in memory.
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

/// A service that is made by its first call.
#[derive(Clone)]
pub struct Late<S> {
    made: Arc<OnceLock<S>>,
    make: fn() -> S,
}

pub fn service() -> Late<ServerReflectionServer<impl ServerReflection>> {
    Late { made: Arc::default(), make }
}

fn make() -> ServerReflectionServer<impl ServerReflection> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(orrery_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the contracts are part of the program, and a test makes this of them")
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
        let late = service();
        assert!(late.made.get().is_none(), "nobody has asked yet");
        let _made = late.made.get_or_init(late.make);
    }
}

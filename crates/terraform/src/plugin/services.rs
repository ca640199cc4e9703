//! The services that every plugin has beside its own.
use crate::wire::plugin::grpc_broker_server::GrpcBroker;
use crate::wire::plugin::grpc_controller_server::GrpcController;
use crate::wire::plugin::grpc_stdio_server::GrpcStdio;
use crate::wire::plugin::{Nothing, Offer, Printed};
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Ends the process when the host asks for it.
pub struct Controller {
    pub stop: CancellationToken,
}

#[tonic::async_trait]
impl GrpcController for Controller {
    async fn shutdown(&self, _: Request<Nothing>) -> Result<Response<Nothing>, Status> {
        self.stop.cancel();
        Ok(Response::new(Nothing {}))
    }
}

/// Prints nothing: the log goes to standard error, which the host reads itself.
pub struct Stdio {
    pub stop: CancellationToken,
}

#[tonic::async_trait]
impl GrpcStdio for Stdio {
    type StreamStdioStream = BoxStream<'static, Result<Printed, Status>>;

    async fn stream_stdio(
        &self,
        _: Request<()>,
    ) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(until(self.stop.clone())))
    }
}

/// Offers no further connections, and takes none.
pub struct Broker {
    pub stop: CancellationToken,
}

#[tonic::async_trait]
impl GrpcBroker for Broker {
    type StartStreamStream = BoxStream<'static, Result<Offer, Status>>;

    async fn start_stream(
        &self,
        _: Request<Streaming<Offer>>,
    ) -> Result<Response<Self::StartStreamStream>, Status> {
        Ok(Response::new(until(self.stop.clone())))
    }
}

/// A stream of nothing that ends with the process.
fn until<T: Send + 'static>(stop: CancellationToken) -> BoxStream<'static, Result<T, Status>> {
    stream::once(stop.cancelled_owned()).filter_map(|()| async { None }).boxed()
}

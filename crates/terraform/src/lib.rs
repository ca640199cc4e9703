//! The Terraform provider: every kind as a resource and a data source.
//!
//! ```text
//!   terraform --starts--> plugin (handshake, TLS) --> provider (one handler per operation, thin)
//!                                                        |            |
//!                                     schema of kinds, resource       client: the hub of a server
//!                                     (check, plan, declare, show: pure)
//! ```
//!
//! Owns: the plugin's side of the handshake, values of Terraform's language, schemas made from the definitions of
//! kinds, and what becomes of configuration, plan and state in each operation.
//!
//! Not in it: any one kind (they come from their definitions), connections (the crate `client` has them), rules that
//! only the server knows.
mod convert;
mod duration;
mod logging;
pub mod plugin;
mod provider;
pub mod resource;
pub mod schema;
pub mod value;
pub mod wire;

use crate::plugin::{Broker, Controller, Handshake, Parent, Serving, ServingError, Stdio};
use crate::provider::ProviderService;
use crate::value::MESSAGE_BYTES_MAX;
use crate::wire::plugin::grpc_broker_server::GrpcBrokerServer;
use crate::wire::plugin::grpc_controller_server::GrpcControllerServer;
use crate::wire::plugin::grpc_stdio_server::GrpcStdioServer;
use crate::wire::tfplugin5::provider_server::ProviderServer as OlderServer;
use crate::wire::tfplugin6::provider_server::ProviderServer;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Handshake(#[from] plugin::HandshakeError),
    #[error(transparent)]
    Serving(#[from] ServingError),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    #[error("cannot serve the host: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// Runs the provider until its host is done with it.
pub fn main(variable: impl Fn(&str) -> Option<String>) -> ExitCode {
    match run(variable) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when this fails too.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(variable: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    let handshake = Handshake::read(&variable)?;
    logging::start(variable("ORRERY_LOG").as_deref());
    // One thread is enough for what waits for a server, and starts at once: a command starts us several times.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::Runtime)?.block_on(serve(handshake))
}

async fn serve(handshake: Handshake) -> Result<(), Error> {
    // An interrupt goes to the whole terminal; the host tells us itself what to do about it.
    let _ignored = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    let stop = CancellationToken::new();
    let serving = Serving::open(handshake)?;
    let host = Parent::find();
    serving.tell()?;
    let provider = Arc::new(ProviderService::new(|name| std::env::var_os(name)));
    let newer = ProviderServer::from_arc(provider.clone())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let older = OlderServer::from_arc(provider)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    tonic::transport::Server::builder()
        .add_service(newer)
        .add_service(older)
        .add_service(GrpcControllerServer::new(Controller { stop: stop.clone() }))
        .add_service(GrpcStdioServer::new(Stdio { stop: stop.clone() }))
        .add_service(GrpcBrokerServer::new(Broker { stop: stop.clone() }))
        .serve_with_incoming_shutdown(serving.connections(), until(stop, host))
        .await?;
    Ok(())
}

/// The host is done with us, or is no more.
async fn until(stop: CancellationToken, host: Parent) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = host.gone() => stop.cancel(),
    }
}

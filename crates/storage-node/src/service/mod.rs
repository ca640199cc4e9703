//! The gRPC services of a storage controller: decode, call [`Volumes`](crate::Volumes), encode.

mod convert;
mod local;
mod oim;
mod pool;
mod register;
mod remote;
mod serve;
mod transport;

pub use register::{Registration, keep_registered};
pub use remote::RemotePool;
pub use serve::{Listener, serve};
pub use transport::Endpoint;

use crate::Volumes;
use orrery_proto::{
    oim::v0::controller_server::ControllerServer, volumes::v1::pool_server::PoolServer,
};
use std::sync::Arc;
use tonic::service::Routes;

/// Everything that a controller serves.
pub fn controller(volumes: Arc<Volumes>) -> Routes {
    let oim = ControllerServer::new(oim::OimController::new(volumes.clone()));
    Routes::new(oim).add_service(PoolServer::new(pool::PoolService::new(volumes)))
}

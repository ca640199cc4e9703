//! The service `oim.v0.Registry`: decode, decide, call the directory, encode.
use crate::{
    Address, Caller, ControllerDirectory, ControllerId, DirectoryError, Entry, Report, Room,
    caller::{Action, Denied},
};
use orrery_proto::oim::v0::{
    DbEntry, GetControllerReply, GetControllerRequest, RegisterControllerReply,
    RegisterControllerRequest, registry_server::Registry,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub struct RegistryService {
    directory: Arc<dyn ControllerDirectory>,
}

impl RegistryService {
    pub fn new(directory: Arc<dyn ControllerDirectory>) -> Self {
        Self { directory }
    }
}

/// The caller that the connection's task put beside the request.
fn caller<T>(request: &Request<T>) -> Result<&Caller, Status> {
    let found = request.extensions().get::<Caller>();
    found.ok_or_else(|| Status::internal("the connection did not say who calls"))
}

pub fn denied(denied: Denied) -> Status {
    Status::permission_denied(denied.to_string())
}

pub fn unavailable(error: DirectoryError) -> Status {
    match &error {
        DirectoryError::Unavailable(_) => Status::unavailable(error.to_string()),
        DirectoryError::Taken(_) => Status::already_exists(error.to_string()),
    }
}

/// The longest name of a backend that is worth showing.
const BACKEND_LENGTH_MAX: usize = 32;
/// A little more than an id of books has.
const BOOKS_LENGTH_MAX: usize = 64;
/// Whoever comes less often than once a day is asked for every day.
const REFRESH_SECONDS_MAX: i64 = 24 * 60 * 60;

/// What a request says beyond the entry itself, within bounds.
fn report(request: &RegisterControllerRequest) -> Report {
    let known = 0 < request.capacity_bytes && 0 <= request.available_bytes;
    Report {
        backend: request.backend.chars().take(BACKEND_LENGTH_MAX).collect(),
        capacity: known.then(|| Room {
            total_bytes: request.capacity_bytes,
            available_bytes: request.available_bytes.min(request.capacity_bytes),
        }),
        refresh_seconds: Some(request.refresh_seconds)
            .filter(|seconds| 0 < *seconds)
            .map(|seconds| seconds.min(REFRESH_SECONDS_MAX)),
        books: request.books.chars().take(BOOKS_LENGTH_MAX).collect(),
    }
}

#[tonic::async_trait]
impl Registry for RegistryService {
    async fn register_controller(
        &self,
        request: Request<RegisterControllerRequest>,
    ) -> Result<Response<RegisterControllerReply>, Status> {
        let id = ControllerId::parse(&request.get_ref().controller_id)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        caller(&request)?.authorize(Action::Register(&id)).map_err(denied)?;
        let request = request.into_inner();
        if request.address.is_empty() {
            tracing::info!(controller = %id, "controller removed");
            self.directory.remove(&id).await.map_err(unavailable)?;
        } else {
            let address = Address::parse(&request.address)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            let report = report(&request);
            self.directory.admit(&id, &report.books).await.map_err(unavailable)?;
            tracing::debug!(controller = %id, %address, "controller registered");
            self.directory.put(Entry { id: id.clone(), address }).await.map_err(unavailable)?;
            self.directory.heard(&id, report).await.map_err(unavailable)?;
        }
        Ok(Response::new(RegisterControllerReply {}))
    }

    async fn get_controllers(
        &self,
        request: Request<GetControllerRequest>,
    ) -> Result<Response<GetControllerReply>, Status> {
        caller(&request)?.authorize(Action::List).map_err(denied)?;
        let entries = self.directory.list().await.map_err(unavailable)?;
        let encode = |entry: Entry| DbEntry {
            controller_id: entry.id.to_string(),
            address: entry.address.to_string(),
        };
        Ok(Response::new(GetControllerReply { entries: entries.into_iter().map(encode).collect() }))
    }
}

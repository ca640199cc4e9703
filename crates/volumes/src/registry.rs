//! The service `oim.v0.Registry`: decode, decide, call the directory, encode.
use crate::{
    Address, Caller, ControllerDirectory, ControllerId, DirectoryError, Entry,
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
        let address = request.into_inner().address;
        if address.is_empty() {
            tracing::info!(controller = %id, "controller removed");
            self.directory.remove(&id).await.map_err(unavailable)?;
        } else {
            let address = Address::parse(&address)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            tracing::debug!(controller = %id, %address, "controller registered");
            self.directory.put(Entry { id, address }).await.map_err(unavailable)?;
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

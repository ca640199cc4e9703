//! What other servers on the same store ask about kinds that another service keeps.
use super::hub::to_status;
use crate::upstream::MESSAGE_BYTES_MAX;
use crate::upstream::requests;
use orrery_api::{FieldSelector, LabelSelector};
use orrery_fleet::middleware::Peer;
use orrery_hub::cache::Cache;
use orrery_hub::{Error, GetOptions, Hub, ListOptions, ObjectName};
use orrery_pki::Role;
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::replicas_server::{Replicas, ReplicasServer};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Answers from what this server keeps, whoever it believes to be the owner: nobody is asked twice.
pub struct ReplicasService {
    hub: Hub,
}

impl ReplicasService {
    pub fn server(hub: Hub) -> ReplicasServer<Self> {
        ReplicasServer::new(Self { hub })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn cache(&self, api_version: &str, kind: &str) -> Result<&Arc<Cache>, Status> {
        let kind = self.hub.scheme().resolve(api_version, kind);
        let kind = kind.map_err(|error| Status::unimplemented(error.to_string()))?;
        let storage = self.hub.storage(&kind.qualified_plural());
        let none = || Status::unimplemented(format!("this server keeps {} itself", kind.plural()));
        storage.and_then(|storage| storage.cache()).ok_or_else(none)
    }
}

/// The other server has checked who wants to know; that it is a server is checked here.
fn only_servers<T>(request: &Request<T>) -> Result<(), Status> {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    if peer.has_role(Role::Server) {
        return Ok(());
    }
    Err(Status::unauthenticated("show a certificate of the role server"))
}

fn refused(error: Error) -> Status {
    to_status(&error)
}

#[tonic::async_trait]
impl Replicas for ReplicasService {
    async fn get(
        &self,
        request: Request<wire::GetRequest>,
    ) -> Result<Response<wire::GetResponse>, Status> {
        only_servers(&request)?;
        let request = request.into_inner();
        let name = request.name.unwrap_or_default();
        let cache = self.cache(&name.api_version, &name.kind)?;
        let options = GetOptions {
            name: ObjectName::new(name.project, name.name),
            include_lineage: request.include_lineage,
            ..GetOptions::default()
        };
        let found = cache.get_here(options).await.map_err(refused)?;
        let resource = Some(requests::resource(cache.kind(), &found));
        Ok(Response::new(wire::GetResponse { resource }))
    }

    async fn list(
        &self,
        request: Request<wire::ListRequest>,
    ) -> Result<Response<wire::ListResponse>, Status> {
        only_servers(&request)?;
        let request = request.into_inner();
        let cache = self.cache(&request.api_version, &request.kind)?;
        let kind = cache.kind();
        let bad = |error: &dyn std::fmt::Display| refused(Error::BadRequest(error.to_string()));
        let options = ListOptions {
            project: Some(request.project).filter(|project| !project.is_empty()),
            labels: LabelSelector::parse(&request.label_selector).map_err(|e| bad(&e))?,
            fields: FieldSelector::parse(&request.field_selector, kind).map_err(|e| bad(&e))?,
            limit: request.limit as usize,
            include_lineage: request.include_lineage,
            ..ListOptions::default()
        };
        let page = cache.list_here(options).await.map_err(refused)?;
        let items = page.items.iter().map(|item| requests::resource(kind, item));
        Ok(Response::new(wire::ListResponse {
            api_version: kind.api_version().to_owned(),
            kind: kind.list_kind().to_owned(),
            resource_version: page.revision.to_string(),
            r#continue: page.continue_from.unwrap_or_default(),
            items: items.collect(),
        }))
    }
}

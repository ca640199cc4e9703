//! One server, asked for one command: what it knows, and its resources as JSON.
use crate::args::{Connection, Global};
use crate::connection::Target;
use crate::kinds;
use crate::output::print;
use crate::watching::Link;
use orrery_client::{Commander, Error};
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::apply_response::Outcome;
use orrery_proto::hub::v1::{
    ApplyRequest, DiscoverResponse, Encoding, GetRequest, KindInfo, ListRequest, Resource,
    ResourceName, resource::Body,
};
use serde_json::Value;
use std::sync::Arc;

/// Whose fields they are that this command line sets.
const FIELD_MANAGER: &str = "orrery";

pub struct Session {
    pub target: Target,
    pub server: Arc<Commander>,
    /// The same way, for what is followed longer than a connection lasts.
    pub link: Arc<Link>,
    pub known: DiscoverResponse,
    /// Whether who set which field is shown too.
    pub managed_fields: bool,
    /// Whether it is shown where resources came from.
    pub lineage: bool,
}

/// Which resources of a kind.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Empty means all projects.
    pub project: String,
    pub labels: String,
    pub fields: String,
}

/// How a resource is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writing {
    /// Check everything, store nothing.
    pub dry_run: bool,
    /// Take fields that others set.
    pub force: bool,
    /// What is written says where it came from.
    pub include_lineage: bool,
}

/// A part of a list.
pub struct Page {
    pub objects: Vec<Value>,
    pub resource_version: String,
    /// Hand it back for the next part; empty at the end.
    pub next: String,
}

impl Session {
    pub async fn open(global: &Global, connection: &Connection) -> anyhow::Result<Self> {
        let target = Target::find(global, connection)?;
        let server = Arc::new(target.connect().await?);
        let known = server.discover().await?;
        let link = Arc::new(Link::new(target.clone(), server.clone()));
        Ok(Self { target, server, link, known, managed_fields: false, lineage: false })
    }

    /// The project to look in; empty for all.
    pub fn project(&self, given: Option<&str>, everywhere: bool) -> String {
        if everywhere { String::new() } else { self.target.project(given) }
    }

    pub async fn get(&self, name: &ResourceName) -> Result<Value, anyhow::Error> {
        self.get_version(name, "").await
    }

    /// What it was when its version had this name; what it is, where that is empty.
    pub async fn get_version(&self, name: &ResourceName, version: &str) -> anyhow::Result<Value> {
        let request = GetRequest {
            name: Some(name.clone()),
            encoding: Encoding::Json.into(),
            include_lineage: self.lineage,
            version: version.to_owned(),
        };
        self.read(self.server.get(request).await?.resource.as_ref())
    }

    fn read(&self, resource: Option<&Resource>) -> anyhow::Result<Value> {
        if self.managed_fields { print::whole_json(resource) } else { print::json(resource) }
    }

    /// The same, where absence is an answer.
    pub async fn find(&self, name: &ResourceName) -> anyhow::Result<Option<Value>> {
        match self.get(name).await {
            Err(error) if reason(&error) == Some("NotFound") => Ok(None),
            found => found.map(Some),
        }
    }

    /// One part of a list, as large as the server likes.
    pub async fn page(&self, kind: &KindInfo, scope: &Scope, next: String) -> anyhow::Result<Page> {
        let request = ListRequest {
            api_version: kinds::api_version(kind),
            kind: kind.kind.clone(),
            project: if kind.cluster_scoped { String::new() } else { scope.project.clone() },
            label_selector: scope.labels.clone(),
            field_selector: scope.fields.clone(),
            limit: 0,
            r#continue: next,
            encoding: Encoding::Json.into(),
            include_lineage: self.lineage,
        };
        let page = self.server.list(request).await?;
        let objects = page.items.iter().map(|item| self.read(Some(item)));
        Ok(Page {
            objects: objects.collect::<Result<_, _>>()?,
            resource_version: page.resource_version,
            next: page.r#continue,
        })
    }

    /// The whole list.
    pub async fn list(&self, kind: &KindInfo, scope: &Scope) -> anyhow::Result<Vec<Value>> {
        let mut page = self.page(kind, scope, String::new()).await?;
        let mut all = std::mem::take(&mut page.objects);
        while !page.next.is_empty() {
            page = self.page(kind, scope, page.next).await?;
            all.append(&mut page.objects);
        }
        Ok(all)
    }

    /// Writes a resource.
    pub async fn write(
        &self,
        object: &Value,
        mode: Mode,
        how: Writing,
    ) -> Result<(Value, Outcome), anyhow::Error> {
        let resource =
            Resource { body: Some(Body::Json(object.to_string())), ..Resource::default() };
        let request = ApplyRequest {
            resource: Some(resource),
            encoding: Encoding::Json.into(),
            field_manager: FIELD_MANAGER.to_owned(),
            dry_run: how.dry_run,
            force: how.force,
            include_lineage: how.include_lineage,
            subresource: String::new(),
            mode: mode.into(),
        };
        let response = self.server.apply(request).await?;
        Ok((print::json(response.resource.as_ref())?, response.outcome()))
    }
}

/// The server has ended what it should go on telling.
#[derive(Debug)]
pub struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server ended the watch")
    }
}

impl std::error::Error for Ended {}

/// Whether the server is away, or about to go: it answers nothing, or that it cannot.
pub fn is_away(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Error>() {
        Some(Error::ConnectionLost { .. } | Error::NotAvailable { .. }) => true,
        Some(_) | None => reason(error) == Some("ServiceUnavailable") || error.is::<Ended>(),
    }
}

/// The server's one word for an error, where the server said it.
pub fn reason(error: &anyhow::Error) -> Option<&str> {
    match error.downcast_ref::<Error>() {
        Some(Error::Api(error)) => Some(error.reason.as_str()),
        Some(_) | None => None,
    }
}

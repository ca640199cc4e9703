//! The server behind the provider, reached when it is first needed.
use super::settings::Settings;
use crate::schema::ResourceType;
use orrery_api::{DEFAULT_GROUP_SUFFIX, SHARED_FROM};
use orrery_client::{Error, Hub};
use orrery_proto::hub::v1::apply_response::Outcome;
use orrery_proto::hub::v1::resource::Body;
use orrery_proto::hub::v1::{
    ApplyRequest, DeleteRequest, DiscoverResponse, Encoding, GetRequest, Resource, ResourceName,
    WatchRequest,
};
use serde_json::Value as Json;
use tokio::sync::OnceCell;

/// Whose fields they are that the provider sets.
const FIELD_MANAGER: &str = "terraform";

/// A server, and what it knows.
pub struct Server {
    pub settings: Settings,
    found: OnceCell<(Hub, DiscoverResponse)>,
}

/// One object of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub api_version: String,
    pub kind: String,
    /// Empty for kinds without projects.
    pub project: String,
    pub name: String,
}

/// Why something could not be asked, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Client(#[from] Error),
    #[error(
        "the server at {server} (version {version}) does not know {kind} in version {wanted}; use a provider of its version"
    )]
    UnknownKind { server: String, version: String, kind: String, wanted: String },
    #[error("the server answered with something that is no object")]
    NoObject,
}

impl ServerError {
    /// The server's one word for it, where the server said it.
    pub fn reason(&self) -> &str {
        match self {
            Self::Client(Error::Api(answer)) => &answer.reason,
            _ => "",
        }
    }

    /// Whether the same may succeed a little later.
    pub fn is_away(&self) -> bool {
        let lost =
            matches!(self, Self::Client(Error::ConnectionLost { .. } | Error::NotAvailable { .. }));
        lost || matches!(self.reason(), "ServiceUnavailable" | "Expired")
    }
}

impl Server {
    pub fn new(settings: Settings) -> Self {
        Self { settings, found: OnceCell::new() }
    }

    async fn hub(&self) -> Result<&(Hub, DiscoverResponse), Error> {
        let connect = || async {
            let hub = Hub::connect(&self.settings.endpoint).await?;
            let known = hub.discover().await?;
            Ok((hub, known))
        };
        self.found.get_or_try_init(connect).await
    }

    /// The full name of an object, in the version that the server has of its kind.
    pub async fn name(
        &self,
        of: &ResourceType,
        project: &str,
        name: &str,
    ) -> Result<Name, ServerError> {
        let (_, known) = self.hub().await?;
        let kind = &of.kind;
        let group = match kind.group().strip_suffix(DEFAULT_GROUP_SUFFIX) {
            Some(own) => format!("{own}{}", known.group_suffix),
            None => kind.group().to_owned(),
        };
        let mut kinds = known.kinds.iter();
        let is_it = |info: &orrery_proto::hub::v1::KindInfo| {
            info.kind == kind.kind() && info.version == kind.version() && info.group == group
        };
        if !kinds.any(is_it) {
            return Err(ServerError::UnknownKind {
                server: self.settings.endpoint.server(),
                version: known.server_version.clone(),
                kind: kind.kind().to_owned(),
                wanted: format!("{group}/{}", kind.version()),
            });
        }
        let project = if kind.cluster_scoped() { String::new() } else { project.to_owned() };
        Ok(Name {
            api_version: format!("{group}/{}", kind.version()),
            kind: kind.kind().to_owned(),
            project,
            name: name.to_owned(),
        })
    }

    /// An object of its project; `None` where there is none. What another project shares is not this one's to
    /// manage.
    pub async fn get(&self, name: &Name) -> Result<Option<Json>, ServerError> {
        let own = |object: &Json| object["metadata"]["annotations"].get(SHARED_FROM).is_none();
        Ok(self.readable(name).await?.filter(own))
    }

    /// An object that its project reads: its own, or one that is shared with it.
    pub async fn readable(&self, name: &Name) -> Result<Option<Json>, ServerError> {
        let request = GetRequest {
            name: Some(name.to_wire()),
            encoding: Encoding::Json.into(),
            include_lineage: false,
            version: String::new(),
        };
        match self.hub().await?.0.get(request).await.map_err(ServerError::from) {
            Ok(response) => read(response.resource.as_ref()).map(Some),
            Err(error) if error.reason() == "NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Declares an object, as a manager of the fields that it sets.
    pub async fn apply(&self, object: &Json) -> Result<(Json, Outcome), ServerError> {
        let resource =
            Resource { body: Some(Body::Json(object.to_string())), ..Resource::default() };
        let request = ApplyRequest {
            resource: Some(resource),
            encoding: Encoding::Json.into(),
            field_manager: FIELD_MANAGER.to_owned(),
            force: self.settings.force,
            ..ApplyRequest::default()
        };
        let response = self.hub().await?.0.apply(request).await?;
        Ok((read(response.resource.as_ref())?, response.outcome()))
    }

    /// Asks for this very object to go. True when it is gone.
    pub async fn delete(&self, name: &Name, uid: &str) -> Result<bool, ServerError> {
        let request = DeleteRequest {
            name: Some(name.to_wire()),
            uid: uid.to_owned(),
            encoding: Encoding::Json.into(),
            ..DeleteRequest::default()
        };
        match self.hub().await?.0.delete(request).await.map_err(ServerError::from) {
            Ok(response) => Ok(response.gone),
            Err(error) if error.reason() == "NotFound" => Ok(true),
            Err(error) if error.reason() == "Conflict" => match self.get(name).await? {
                Some(found) if found["metadata"]["uid"] == uid => Err(error),
                // Another one of its name is not ours to delete.
                Some(_) | None => Ok(true),
            },
            Err(error) => Err(error),
        }
    }

    /// An object as it is, and every change of it.
    pub async fn watch(&self, name: &Name) -> Result<orrery_client::Changes, ServerError> {
        let request = WatchRequest {
            api_version: name.api_version.clone(),
            kind: name.kind.clone(),
            project: name.project.clone(),
            name: name.name.clone(),
            encoding: Encoding::Json.into(),
            ..WatchRequest::default()
        };
        Ok(self.hub().await?.0.watch(request).await?)
    }
}

impl Name {
    fn to_wire(&self) -> ResourceName {
        ResourceName {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            project: self.project.clone(),
            name: self.name.clone(),
        }
    }

    /// What the resource is imported by.
    pub fn id(&self) -> String {
        if self.project.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.project, self.name)
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind, self.id())
    }
}

pub fn read(resource: Option<&Resource>) -> Result<Json, ServerError> {
    match resource.and_then(|resource| resource.body.as_ref()) {
        Some(Body::Json(text)) => serde_json::from_str(text).map_err(|_| ServerError::NoObject),
        Some(Body::Protobuf(_)) | None => Err(ServerError::NoObject),
    }
}

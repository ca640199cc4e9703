//! The operations.
use super::convert::{self, Writer, known};
use super::errors::unresolved;
use super::watch;
use crate::identity::{Guard, Lasting, asked_of_part};
use futures::stream::BoxStream;
use orrery_access::{Access, Attributes};
use orrery_api::{Encoded, FieldSelector, Kind, LabelSelector, Object, Scheme};
use orrery_fleet::middleware::Peer;
use orrery_hub::{
    Accessor, ApplyOptions, DeleteOptions, Error, GetOptions, Hub, ListOptions, Merge, ObjectName,
    Outcome, Part, Precondition, Propagation, WatchOptions,
};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::{apply_response, delete_request};
use prost::Message as _;
use std::sync::Arc;

/// Objects in one page when the caller does not say, and at most.
const PAGE_DEFAULT: usize = 500;
const PAGE_MAX: usize = 1000;
/// How many bytes of objects are in one part of a list, unless one alone is larger: clients of gRPC take 4 MiB if
/// nobody tells them otherwise.
const PAGE_BYTES_MAX: usize = 3 << 20;

/// What access rules call the versions of an object.
const VERSIONS: &str = "versions";

/// The hub for callers that speak protobuf. Cheap to clone.
#[derive(Clone)]
pub struct HubApi {
    hub: Hub,
    guard: Guard,
}

/// A kind that was asked for: in the caller's version, and as the hub holds it.
struct Asked<'a> {
    kind: Arc<Kind>,
    accessor: &'a Arc<dyn Accessor>,
}

impl HubApi {
    /// For a caller that nothing is known of; see [`HubApi::of`].
    pub fn new(hub: Hub, access: Access) -> Self {
        Self { hub, guard: Guard::new(access) }
    }

    /// The same for the one who asks.
    #[must_use]
    pub fn of(&self, peer: &Peer) -> Self {
        Self { hub: self.hub.clone(), guard: self.guard.of(peer.subject()) }
    }

    /// What the one who asks may do.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    pub fn discover(&self) -> wire::DiscoverResponse {
        let scheme = self.scheme();
        wire::DiscoverResponse {
            server_version: crate::VERSION.to_owned(),
            group_suffix: scheme.group_suffix().to_owned(),
            kinds: scheme.kinds().map(|kind| convert::kind_info(kind)).collect(),
        }
    }

    pub async fn get(&self, request: wire::GetRequest) -> Result<wire::GetResponse, Error> {
        let encoding = known("GetRequest.encoding", request.encoding)?;
        let name = request.name.unwrap_or_default();
        let asked = self.asked(&name.api_version, &name.kind)?;
        let name = asked.object_name(name)?;
        let version = Some(request.version).filter(|version| !version.is_empty());
        let part = if version.is_some() { VERSIONS } else { "" };
        self.guard.check_part("get", &asked.kind, part, &name.project, &name.name)?;
        let include_lineage = request.include_lineage;
        let options = GetOptions { name, include_lineage, include_shared: true, version };
        let found = asked.accessor.get_encoded(options).await?;
        let writer = self.writer(&asked.kind, encoding);
        Ok(wire::GetResponse { resource: Some(writer.write(&found)?) })
    }

    pub async fn list_versions(
        &self,
        request: wire::ListVersionsRequest,
    ) -> Result<wire::ListVersionsResponse, Error> {
        let name = request.name.unwrap_or_default();
        let asked = self.asked(&name.api_version, &name.kind)?;
        let name = asked.object_name(name)?;
        self.guard.check_part("get", &asked.kind, VERSIONS, &name.project, &name.name)?;
        let found = asked.accessor.versions(name).await?;
        let version = |version: orrery_hub::Version| wire::Version {
            name: version.name,
            generation: version.generation,
            current: version.until.is_none(),
            until: version.until.unwrap_or_default(),
        };
        Ok(wire::ListVersionsResponse { versions: found.into_iter().map(version).collect() })
    }

    pub async fn list(&self, request: wire::ListRequest) -> Result<wire::ListResponse, Error> {
        let encoding = known("ListRequest.encoding", request.encoding)?;
        let asked = self.asked(&request.api_version, &request.kind)?;
        let project = asked.project_scope(request.project);
        self.guard.check("list", &asked.kind, project.as_deref().unwrap_or_default(), "")?;
        let (labels, fields) = asked.selectors(&request.label_selector, &request.field_selector)?;
        let limit = match request.limit {
            0 => PAGE_DEFAULT,
            limit => PAGE_MAX.min(limit as usize),
        };
        let mut options = ListOptions {
            project,
            labels,
            fields,
            limit,
            continue_from: Some(request.r#continue).filter(|token| !token.is_empty()),
            at: None,
            include_lineage: request.include_lineage,
            include_shared: true,
        };
        let writer = self.writer(&asked.kind, encoding);
        loop {
            let page = asked.accessor.list_encoded(options.clone()).await?;
            let items = fitting(&writer, &page.items)?;
            let page = if items.len() < page.items.len() {
                options.limit = items.len();
                let shorter = asked.accessor.list_encoded(options.clone()).await?;
                if shorter.revision != page.revision {
                    // Somebody has written meanwhile: it may hold something else.
                    continue;
                }
                shorter
            } else {
                page
            };
            return Ok(wire::ListResponse {
                api_version: asked.kind.api_version().to_owned(),
                kind: asked.kind.list_kind().to_owned(),
                resource_version: page.revision.to_string(),
                r#continue: page.continue_from.unwrap_or_default(),
                items,
            });
        }
    }

    pub async fn apply(&self, request: wire::ApplyRequest) -> Result<wire::ApplyResponse, Error> {
        let encoding = known("ApplyRequest.encoding", request.encoding)?;
        let mode = known("ApplyRequest.mode", request.mode)?;
        let resource = request.resource.unwrap_or_default();
        let given = convert::read(self.scheme(), &resource)?;
        let kind = given.kind().clone();
        if !kind.writable() {
            return Err(server_owned(&kind));
        }
        let given = given.into_hub(self.scheme())?;
        let hub_kind = given.kind().clone();
        if request.include_lineage {
            let (project, name) = given.place()?;
            self.guard.check_lineage(&kind, project, name)?;
        }
        let options = ApplyOptions {
            precondition: self.precondition(mode, &kind, given.place()?, &request.subresource)?,
            merge: merge(mode, &request.field_manager),
            manager: request.field_manager,
            force: request.force,
            part: part(&request.subresource)?,
            include_lineage: request.include_lineage,
            dry_run: request.dry_run,
            admit: self.guard.admit(&hub_kind),
            ..ApplyOptions::default()
        };
        let accessor = &**self.hub.accessor(&hub_kind)?;
        let (project, name) = given.place()?;
        let name = ObjectName::new(project, name);
        let applied = match given.apply(accessor, options).await {
            Ok(applied) => applied,
            Err(error) => return Err(self.guard.explain_absence(accessor, &name, error).await),
        };
        let outcome = match applied.outcome {
            Outcome::Created => apply_response::Outcome::Created,
            Outcome::Changed | Outcome::Gone => apply_response::Outcome::Changed,
            Outcome::Unchanged => apply_response::Outcome::Unchanged,
        };
        let resource = Some(self.writer(&kind, encoding).write(&applied.object)?);
        Ok(wire::ApplyResponse { resource, outcome: outcome.into() })
    }

    pub async fn delete(
        &self,
        request: wire::DeleteRequest,
    ) -> Result<wire::DeleteResponse, Error> {
        let encoding = known("DeleteRequest.encoding", request.encoding)?;
        let propagation = known("DeleteRequest.propagation", request.propagation)?;
        let name = request.name.unwrap_or_default();
        let asked = self.asked(&name.api_version, &name.kind)?;
        if !asked.kind.writable() {
            return Err(server_owned(&asked.kind));
        }
        let revision = Some(request.resource_version).filter(|text| !text.is_empty());
        let name = asked.object_name(name)?;
        self.guard.check("delete", &asked.kind, &name.project, &name.name)?;
        let options = DeleteOptions {
            name,
            uid: Some(request.uid).filter(|uid| !uid.is_empty()),
            revision: revision.map(|text| parse_revision(&text)).transpose()?,
            propagation: wish(propagation),
            dry_run: request.dry_run,
            ..DeleteOptions::default()
        };
        let name = options.name.clone();
        let deleted = match asked.accessor.delete(options).await {
            Ok(deleted) => deleted,
            Err(error) => {
                return Err(self.guard.explain_absence(&**asked.accessor, &name, error).await);
            }
        };
        let resource = Some(self.encode(&deleted.object, &asked.kind, encoding)?);
        Ok(wire::DeleteResponse { resource, gone: deleted.gone })
    }

    pub async fn watch(
        &self,
        request: wire::WatchRequest,
    ) -> Result<BoxStream<'static, Result<wire::WatchResponse, Error>>, Error> {
        let encoding = known("WatchRequest.encoding", request.encoding)?;
        let asked = self.asked(&request.api_version, &request.kind)?;
        let project = asked.project_scope(request.project);
        let scope = project.as_deref().unwrap_or_default();
        self.guard.check("watch", &asked.kind, scope, &request.name)?;
        let lasting = Lasting::watch(&self.guard, &asked.kind, scope, &request.name);
        let (labels, fields) = asked.selectors(&request.label_selector, &request.field_selector)?;
        let after = Some(request.resource_version).filter(|text| !text.is_empty());
        let options = WatchOptions {
            project,
            name: Some(request.name).filter(|name| !name.is_empty()),
            labels,
            fields,
            after: after.map(|text| parse_revision(&text)).transpose()?,
            include_lineage: request.include_lineage,
            include_shared: true,
            ..WatchOptions::default()
        };
        let events = asked.accessor.watch_encoded(options).await?;
        let events = self.guard.lasting(lasting, events);
        Ok(watch::encoded(events, self.writer(&asked.kind, encoding)))
    }

    /// What must hold so that nobody creates who may only change, or changes who may only create.
    fn precondition(
        &self,
        mode: Mode,
        kind: &Kind,
        (project, name): (&str, &str),
        subresource: &str,
    ) -> Result<Precondition, Error> {
        let check = |verb: &str| self.guard.check_part(verb, kind, subresource, project, name);
        match mode {
            Mode::Create => check("create").map(|()| Precondition::Absent),
            Mode::Replace => check("update").map(|()| Precondition::Present),
            Mode::Apply => match (check("create"), check("patch")) {
                (Ok(()), Ok(())) => Ok(Precondition::Any),
                (Ok(()), Err(_)) => Ok(Precondition::Absent),
                (Err(_), changing) => changing.map(|()| Precondition::Present),
            },
        }
    }

    /// By which rights an apply of this object is let in now; nothing of it can be taken from those who may do
    /// everything.
    pub fn uses(&self, request: &wire::ApplyRequest, project: &str, name: &str) -> Vec<Attributes> {
        let resource = request.resource.as_ref();
        let given = resource.and_then(|given| convert::kind_of(self.scheme(), given));
        let (Some(kind), false) = (given, self.guard.may_everything()) else { return Vec::new() };
        let verbs: &[&str] = match request.mode() {
            Mode::Apply => &["create", "patch"],
            Mode::Create => &["create"],
            Mode::Replace => &["update"],
        };
        let asked = |verb: &&str| asked_of_part(verb, &kind, &request.subresource, project, name);
        let allowed = |asked: &Attributes| self.guard.decide(asked).allowed();
        verbs.iter().map(asked).filter(allowed).collect()
    }

    pub fn scheme(&self) -> &Arc<Scheme> {
        self.hub.scheme()
    }

    fn asked(&self, api_version: &str, kind: &str) -> Result<Asked<'_>, Error> {
        let kind = self.scheme().resolve(api_version, kind).map_err(unresolved)?;
        let accessor = self.hub.accessor(&self.scheme().hub_kind(&kind))?;
        Ok(Asked { kind, accessor })
    }

    fn writer(&self, kind: &Arc<Kind>, encoding: wire::Encoding) -> Writer {
        let guard = self.guard.clone();
        Writer { guard, scheme: self.scheme().clone(), kind: kind.clone(), encoding }
    }

    fn encode(
        &self,
        object: &Object,
        kind: &Arc<Kind>,
        encoding: wire::Encoding,
    ) -> Result<wire::Resource, Error> {
        convert::encode(self.scheme(), &self.guard.shown(object), kind, encoding)
    }
}

impl Asked<'_> {
    fn object_name(&self, name: wire::ResourceName) -> Result<ObjectName, Error> {
        let what = self.kind.kind();
        if name.name.is_empty() {
            return Err(Error::BadRequest(format!("which {what}? its name is missing")));
        }
        if self.kind.cluster_scoped() {
            return Ok(ObjectName::new("", name.name));
        }
        if name.project.is_empty() {
            let text = format!("{what} \"{}\" of which project? it is missing", name.name);
            return Err(Error::BadRequest(text));
        }
        Ok(ObjectName::new(name.project, name.name))
    }

    /// `None` means everywhere.
    fn project_scope(&self, project: String) -> Option<String> {
        (!self.kind.cluster_scoped() && !project.is_empty()).then_some(project)
    }

    fn selectors(
        &self,
        labels: &str,
        fields: &str,
    ) -> Result<(LabelSelector, FieldSelector), Error> {
        let labels = LabelSelector::parse(labels);
        let fields = FieldSelector::parse(fields, &self.kind);
        Ok((
            labels.map_err(|error| Error::BadRequest(error.to_string()))?,
            fields.map_err(|error| Error::BadRequest(error.to_string()))?,
        ))
    }
}

/// Whoever says who it is declares only its own fields.
fn merge(mode: Mode, manager: &str) -> Merge {
    match mode {
        Mode::Apply if manager.is_empty() => Merge::Declared,
        Mode::Apply => Merge::Apply,
        Mode::Create | Mode::Replace => Merge::Replace,
    }
}

fn wish(propagation: delete_request::Propagation) -> Option<Propagation> {
    match propagation {
        delete_request::Propagation::Unspecified => None,
        delete_request::Propagation::Background => Some(Propagation::Background),
        delete_request::Propagation::Foreground => Some(Propagation::Foreground),
        delete_request::Propagation::Orphan => Some(Propagation::Orphan),
    }
}

fn part(subresource: &str) -> Result<Part, Error> {
    match subresource {
        "" => Ok(Part::Main),
        "status" => Ok(Part::Status),
        other => Err(Error::BadRequest(format!("there is no subresource {other:?}"))),
    }
}

/// As many of these, from the first, as are one part of a list.
fn fitting(writer: &Writer, found: &[Encoded]) -> Result<Vec<wire::Resource>, Error> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    for item in found {
        let item = writer.write(item)?;
        bytes += item.encoded_len();
        if PAGE_BYTES_MAX < bytes && !items.is_empty() {
            break;
        }
        items.push(item);
    }
    Ok(items)
}

fn parse_revision(text: &str) -> Result<orrery_hub::Revision, Error> {
    text.parse().map_err(|_| Error::BadRequest(format!("{text:?} is no resourceVersion")))
}

fn server_owned(kind: &Kind) -> Error {
    let plural = kind.plural();
    Error::Forbidden(format!(
        "{plural} are written by the server only; they follow what you declare"
    ))
}

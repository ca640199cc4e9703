//! What is asked for, in the words of access rules.
use orrery_api::{Encoded, Kind, Scheme};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::resource::Body;

/// Bytes of a path or a name that are kept of what somebody asked for.
const TEXT_MAX: usize = 512;

/// One request. Its verb and kind are of a fixed set, whatever a client sends, so that they can be
/// labels of figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub verb: &'static str,
    /// Empty where no resource is asked for, or one that is not known.
    pub group: String,
    pub kind: String,
    /// Empty means everywhere, or that the kind has no project.
    pub project: String,
    pub name: String,
    pub subresource: &'static str,
    /// What is asked for that is no resource.
    pub path: String,
}

impl Asked {
    /// Something that is no resource.
    pub fn path(verb: &'static str, path: &str) -> Self {
        Self { verb, path: cut(path), ..Self::default() }
    }

    pub fn of(verb: &'static str, kind: &Kind, project: &str, name: &str) -> Self {
        Self {
            verb,
            group: kind.group().to_owned(),
            kind: kind.kind().to_owned(),
            project: cut(project),
            name: cut(name),
            ..Self::default()
        }
    }

    fn resolved(
        scheme: &Scheme,
        verb: &'static str,
        (api_version, kind): (&str, &str),
        project: &str,
        name: &str,
    ) -> Self {
        match scheme.resolve(api_version, kind) {
            Ok(kind) => Self::of(verb, &kind, project, name),
            Err(_) => Self { verb, project: cut(project), name: cut(name), ..Self::default() },
        }
    }

    /// What a resource says of itself. What cannot be read is refused later, with the reason.
    fn of_resource(scheme: &Scheme, verb: &'static str, resource: &wire::Resource) -> Self {
        match &resource.body {
            Some(Body::Json(text)) => {
                let head: Head = serde_json::from_str(text).unwrap_or_default();
                let kind = match (head.api_version.as_str(), head.kind.as_str()) {
                    ("", "") => (resource.api_version.as_str(), resource.kind.as_str()),
                    own => own,
                };
                Self::resolved(scheme, verb, kind, head.metadata.place(), &head.metadata.name)
            }
            Some(Body::Protobuf(bytes)) => {
                let Ok(kind) = scheme.resolve(&resource.api_version, &resource.kind) else {
                    return Self { verb, ..Self::default() };
                };
                let given = Encoded::new(&kind, bytes.clone());
                let (project, name) = (given.project(), given.name());
                Self::of(verb, &kind, project.unwrap_or_default(), name.unwrap_or_default())
            }
            None => Self { verb, ..Self::default() },
        }
    }

    pub fn get(scheme: &Scheme, request: &wire::GetRequest) -> Self {
        match request.version.as_str() {
            "" => Self::named(scheme, "get", request.name.as_ref()),
            _ => Self::versions(scheme, request.name.as_ref()),
        }
    }

    pub fn versions(scheme: &Scheme, name: Option<&wire::ResourceName>) -> Self {
        Self { subresource: "versions", ..Self::named(scheme, "get", name) }
    }

    pub fn delete(scheme: &Scheme, request: &wire::DeleteRequest) -> Self {
        Self::named(scheme, "delete", request.name.as_ref())
    }

    fn named(scheme: &Scheme, verb: &'static str, name: Option<&wire::ResourceName>) -> Self {
        let Some(name) = name else { return Self { verb, ..Self::default() } };
        Self::resolved(scheme, verb, (&name.api_version, &name.kind), &name.project, &name.name)
    }

    pub fn list(scheme: &Scheme, request: &wire::ListRequest) -> Self {
        let kind = (request.api_version.as_str(), request.kind.as_str());
        Self::resolved(scheme, "list", kind, &request.project, "")
    }

    pub fn watch(scheme: &Scheme, request: &wire::WatchRequest) -> Self {
        let kind = (request.api_version.as_str(), request.kind.as_str());
        Self::resolved(scheme, "watch", kind, &request.project, &request.name)
    }

    pub fn apply(scheme: &Scheme, request: &wire::ApplyRequest) -> Self {
        let verb = match request.mode() {
            Mode::Apply => "patch",
            Mode::Create => "create",
            Mode::Replace => "update",
        };
        let mut asked = match request.resource.as_ref() {
            None => Self { verb, ..Self::default() },
            Some(resource) => Self::of_resource(scheme, verb, resource),
        };
        asked.subresource = if request.subresource == "status" { "status" } else { "" };
        asked
    }
}

/// As much of a resource as says which one it is. The rest is skipped, not kept.
#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Place,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Place {
    name: String,
    project: String,
    namespace: String,
}

impl Place {
    fn place(&self) -> &str {
        if self.project.is_empty() { &self.namespace } else { &self.project }
    }
}

/// The beginning of a text, cut between characters.
pub fn cut(text: &str) -> String {
    let end = (0..=TEXT_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or_default()].to_owned()
}

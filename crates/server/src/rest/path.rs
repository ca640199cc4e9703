//! Paths of the dialect.
//!
//! ```text
//!   /api/v1/...            the core group: namespaces and events
//!   /apis/GROUP/VERSION/   PLURAL                                   everywhere
//!                          PLURAL/NAME[/SUB]                     without a project
//!                          namespaces/PROJECT/PLURAL[/NAME[/SUB]]
//!                          projects/PROJECT/PLURAL[/NAME[/SUB]]  the same
//!   SUB                    status, scale, artifacts[/PATH], versions[/VERSION], log, exec, for kinds that have them
//! ```
use super::catalog::Catalog;
use super::resource::Resource;
use super::review::Review;
use orrery_hub::{ObjectName, Part};
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// What a path leads to.
pub enum Target {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/apis/GROUP/VERSION` and, with an empty group, `/api/v1`
    GroupVersion {
        group: String,
        version: String,
    },
    /// A question, and the project that it is asked in.
    Review {
        review: Review,
        project: String,
    },
    /// All objects of a kind, or those of one project.
    Collection {
        resource: Arc<Resource>,
        project: Option<String>,
    },
    Object {
        resource: Arc<Resource>,
        name: ObjectName,
        sub: Sub,
    },
}

/// What of an object is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sub {
    Part(Part),
    /// How many copies there should be and are.
    Scale,
    /// The list of its files.
    Artifacts,
    /// One of its files.
    Artifact(String),
    /// The list of its versions.
    Versions,
    /// What it was under the name of a version.
    Version(String),
    /// What its copies write.
    Log,
    /// Commands beside its copies.
    Exec,
}

impl Sub {
    /// As access rules name it; empty for the object itself.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Part(Part::Main) => "",
            Self::Part(Part::Status) => "status",
            Self::Part(Part::Scale) | Self::Scale => "scale",
            Self::Artifacts | Self::Artifact(_) => "artifacts",
            Self::Versions | Self::Version(_) => "versions",
            Self::Log => "log",
            Self::Exec => "exec",
        }
    }
}

/// The parts of a path between its slashes, decoded; `None` when it is no text.
pub fn segments(path: &str) -> Option<Vec<String>> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()))
        .collect()
}

/// Where a path leads; `None` is nowhere.
pub fn resolve(catalog: &Catalog, path: &str) -> Option<Target> {
    let segments = segments(path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api"] => Some(Target::CoreVersions),
        ["apis"] => Some(Target::Groups),
        ["api", version] => Some(group_version("", version)),
        ["apis", group] => Some(Target::Group((*group).to_owned())),
        ["apis", group, version] => Some(group_version(group, version)),
        ["api", version, rest @ ..] => in_group(catalog, "", version, rest),
        ["apis", group, version, rest @ ..] => match Review::find(group, version, rest) {
            Some((review, project)) => Some(Target::Review { review, project }),
            None => in_group(catalog, group, version, rest),
        },
        _ => None,
    }
}

fn group_version(group: &str, version: &str) -> Target {
    Target::GroupVersion { group: group.to_owned(), version: version.to_owned() }
}

fn in_group(catalog: &Catalog, group: &str, version: &str, rest: &[&str]) -> Option<Target> {
    let find = |plural: &str| catalog.find(group, version, plural);
    let namespaced = |plural: &str| find(plural).filter(|resource| resource.namespaced());
    let clustered = |plural: &str| find(plural).filter(|resource| !resource.namespaced());
    match rest {
        [plural] => Some(collection(find(plural)?, None)),
        [plural, name] => object(clustered(plural)?, "", name, &[]),
        // `projects/demo/status` is a part of a project, `projects/demo/events` is what is in it.
        ["namespaces" | "projects", project, plural] if namespaced(plural).is_some() => {
            Some(collection(namespaced(plural)?, Some(project)))
        }
        ["namespaces" | "projects", project, plural, name, sub @ ..]
            if namespaced(plural).is_some() =>
        {
            object(namespaced(plural)?, project, name, sub)
        }
        [plural, name, sub @ ..] => object(clustered(plural)?, "", name, sub),
        _ => None,
    }
}

fn collection(resource: &Arc<Resource>, project: Option<&str>) -> Target {
    Target::Collection { resource: resource.clone(), project: project.map(str::to_owned) }
}

fn object(resource: &Arc<Resource>, project: &str, name: &str, sub: &[&str]) -> Option<Target> {
    let sub = match sub {
        [] => Sub::Part(Part::Main),
        ["status"] if resource.has_status() => Sub::Part(Part::Status),
        ["scale"] if resource.scale().is_some() => Sub::Scale,
        ["artifacts"] if resource.has_artifacts() => Sub::Artifacts,
        ["artifacts", path @ ..] if resource.has_artifacts() => Sub::Artifact(path.join("/")),
        ["log"] if resource.runs() => Sub::Log,
        ["exec"] if resource.runs() => Sub::Exec,
        ["versions"] if resource.has_versions() => Sub::Versions,
        ["versions", version] if resource.has_versions() => Sub::Version((*version).to_owned()),
        _ => return None,
    };
    let name = ObjectName::new(project, name);
    Some(Target::Object { resource: resource.clone(), name, sub })
}

//! Which other projects may read an object, as its spec says it.
//!
//! A kind can be shared when its spec has a field `sharing` of the type `orrery.meta.v1.Sharing`. Projects stand
//! there by their names for people, and by their ids in the store.
use orrery_proto::meta::v1::{SharedProject, Sharing};
use prost::Message as _;
use prost_reflect::{FieldDescriptor, Kind as ProtoKind};

use crate::{
    kind::Kind,
    object::{Encoded, Object, ObjectError, wire},
    record::{self, Value},
    schema::{Element, MessageId},
    violation::Violation,
};

/// Stands for every project.
pub const EVERY_PROJECT: &str = "*";

/// The annotation that says, in another project, which one a shared object is of. Only the server writes it.
pub const SHARED_FROM: &str = "orrery.dev/shared-from";

/// The field of a spec that says it.
const FIELD: &str = "sharing";
const MESSAGE: &str = "orrery.meta.v1.Sharing";

/// With whom an object is shared, beside its own project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
    WithNobody,
    WithAll,
    With(Vec<String>),
}

impl Shared {
    pub fn of(sharing: Option<&Sharing>) -> Self {
        let Some(sharing) = sharing.filter(|sharing| sharing.enabled()) else {
            return Self::WithNobody;
        };
        let names: Vec<String> = sharing.projects.iter().map(|it| it.name().to_owned()).collect();
        if names.iter().any(|name| name == EVERY_PROJECT) {
            return Self::WithAll;
        }
        if names.is_empty() { Self::WithNobody } else { Self::With(names) }
    }

    /// Whether a project may read it.
    pub fn with(&self, project: &str) -> bool {
        match self {
            Self::WithNobody => false,
            Self::WithAll => true,
            Self::With(names) => names.iter().any(|name| name == project),
        }
    }

    /// The projects that may read it and could not before; [`EVERY_PROJECT`] where all may.
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        match (self, before) {
            (Self::WithNobody, _) | (_, Self::WithAll) => Vec::new(),
            (Self::WithAll, Self::WithNobody | Self::With(_)) => vec![EVERY_PROJECT.to_owned()],
            (Self::With(names), Self::WithNobody | Self::With(_)) => {
                names.iter().filter(|name| !before.with(name)).cloned().collect()
            }
        }
    }
}

/// As one project sees with whom it is shared: of the others it learns nothing.
pub fn seen_by(sharing: &Sharing, project: &str) -> Sharing {
    let named = |it: &&SharedProject| it.name() == EVERY_PROJECT || it.name() == project;
    let projects = sharing.projects.iter().filter(named).cloned().collect();
    Sharing { enabled: sharing.enabled, projects }
}

/// The field of a kind's spec that says with whom its objects are shared; an error where it is of another type or
/// the kind has no projects.
pub(crate) fn find(
    spec: Option<&FieldDescriptor>,
    cluster_scoped: bool,
) -> Result<Option<u32>, String> {
    let Some(ProtoKind::Message(spec)) = spec.map(FieldDescriptor::kind) else { return Ok(None) };
    let Some(field) = spec.get_field_by_name(FIELD) else { return Ok(None) };
    let ours = field.kind().as_message().is_some_and(|it| it.full_name() == MESSAGE);
    if !ours || field.is_list() {
        return Err(format!("spec.{FIELD} must be a {MESSAGE}"));
    }
    if cluster_scoped {
        return Err(format!("spec.{FIELD} is for kinds that live in projects"));
    }
    Ok(Some(field.number()))
}

/// What no rule of a single field says.
pub(crate) fn violations(object: &Object) -> Vec<Violation> {
    let Some(sharing) = object.sharing() else { return Vec::new() };
    let path = "spec.sharing.projects";
    let every = sharing.projects.iter().any(|it| it.name() == EVERY_PROJECT);
    if sharing.enabled() && sharing.projects.is_empty() {
        return vec![Violation::required(path, "name the projects it is shared with, or \"*\"")];
    }
    if !sharing.enabled() && !sharing.projects.is_empty() {
        let why = "it is not shared; set spec.sharing.enabled to true, or name no projects";
        return vec![Violation::forbidden(path, why)];
    }
    if every && 1 < sharing.projects.len() {
        return vec![Violation::forbidden(
            path,
            "\"*\" stands for all projects, so name no others",
        )];
    }
    Vec::new()
}

/// With whom the object in these bytes is shared. Nothing else of it is read; a damaged one is shared with nobody.
pub fn shared(kind: &Kind, bytes: &[u8]) -> Shared {
    Shared::of(sharing_of(kind, bytes).as_ref())
}

fn sharing_of(kind: &Kind, bytes: &[u8]) -> Option<Sharing> {
    let way = kind.sharing_way()?;
    let mut found: Option<Sharing> = None;
    for content in wire::all(bytes, &way) {
        found.get_or_insert_default().merge(content).ok()?;
    }
    found
}

/// What an object is found by from the projects that it is shared with: by the project, and by the project together
/// with its name.
pub(crate) fn terms(kind: &Kind, name: &str, bytes: &[u8], found: &mut Vec<String>) {
    let projects = match shared(kind, bytes) {
        Shared::WithNobody => return,
        Shared::WithAll => vec![EVERY_PROJECT.to_owned()],
        Shared::With(projects) => projects,
    };
    for project in projects {
        found.push(shared_name_term(&project, name));
        found.push(shared_term(&project));
    }
}

/// All that is shared with a project, in the words of the store's index.
pub fn shared_term(project: &str) -> String {
    format!("shared\0{project}")
}

/// What is shared with a project under one name.
pub fn shared_name_term(project: &str, name: &str) -> String {
    format!("shared\0{project}\0{name}")
}

impl Kind {
    /// Whether objects of this kind can be shared with other projects.
    pub fn shareable(&self) -> bool {
        self.sharing.is_some()
    }

    fn sharing_way(&self) -> Option<[u32; 2]> {
        Some([self.numbers.spec?, self.sharing?])
    }

    /// What the schema calls the message that says it.
    fn sharing_part(&self) -> Option<MessageId> {
        let (spec, number) = (self.schema.message(self.parts.spec?), self.sharing?);
        match spec.numbered(number, 0)?.1.shape.element() {
            Element::Message(id) => Some(id),
            Element::Scalar(_) | Element::WellKnown(_) => None,
        }
    }
}

impl Object {
    /// What its spec says about sharing.
    pub fn sharing(&self) -> Option<Sharing> {
        let kind = self.kind();
        let said = self.spec()?.record(kind.sharing?)?;
        let bytes = record::encode(&kind.schema, kind.sharing_part()?, said);
        Sharing::decode(bytes.as_slice()).ok()
    }

    /// Makes its spec say this about sharing. Objects of kinds that cannot be shared stay as they are.
    pub fn set_sharing(&mut self, sharing: &Sharing) {
        let kind = self.kind();
        let (Some([spec, number]), Some(id)) = (kind.sharing_way(), kind.sharing_part()) else {
            return;
        };
        let said = record::decode(&kind.schema, id, &sharing.encode_to_vec());
        let said = said.expect("bytes of a Sharing are a Sharing");
        self.record_mut().record_mut(spec).put(number, Value::Record(said));
    }
}

impl Encoded {
    /// Whether its spec says anything about sharing. Nothing is decoded for that.
    pub fn has_sharing(&self) -> bool {
        let Some(way) = self.kind().sharing_way() else { return false };
        !wire::all(self.raw(), &way).is_empty()
    }

    /// The same object, after `change` had its way with what its spec says about sharing.
    pub fn with_sharing(
        &self,
        change: impl FnOnce(Sharing) -> Sharing,
    ) -> Result<Self, ObjectError> {
        let mut object = self.object()?.clone();
        if let Some(sharing) = object.sharing() {
            object.set_sharing(&change(sharing));
        }
        Ok(Self::from(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sharing() -> impl Strategy<Value = Sharing> {
        let name = prop::sample::select(&["a", "b", "c", EVERY_PROJECT][..]);
        let project = name.prop_map(|name| SharedProject { name: Some(name.to_owned()) });
        (any::<Option<bool>>(), prop::collection::vec(project, 0..4))
            .prop_map(|(enabled, projects)| Sharing { enabled, projects })
    }

    proptest! {
        /// Who may read it is what the spec says: enabled, and the project or all projects named.
        ///
        /// proves: HUB-09
        #[test]
        fn a_project_reads_what_is_shared_with_it_and_nothing_else(
            sharing in sharing(), reader in "[a-d]",
        ) {
            let named = sharing.projects.iter().any(|it| it.name() == reader || it.name() == "*");
            let expect = sharing.enabled == Some(true) && named;
            prop_assert_eq!(Shared::of(Some(&sharing)).with(&reader), expect);
            // What one project is shown of it says the same about that project.
            let seen = seen_by(&sharing, &reader);
            prop_assert_eq!(Shared::of(Some(&seen)).with(&reader), expect);
            prop_assert!(seen.projects.iter().all(|it| it.name() == reader || it.name() == "*"));
        }

        /// Who is named as new could not read before and can now, and nobody is left out.
        #[test]
        fn those_who_begin_to_read_are_told(
            before in sharing(), after in sharing(), reader in "[a-d]",
        ) {
            let (before, after) = (Shared::of(Some(&before)), Shared::of(Some(&after)));
            let new = after.beyond(&before);
            let begins = after.with(&reader) && !before.with(&reader);
            let told = new.iter().any(|name| *name == reader || name == EVERY_PROJECT);
            prop_assert!(!begins || told, "{} begins to read", reader);
            prop_assert!(!new.contains(&reader) || begins);
        }
    }

    #[test]
    fn nothing_is_shared_by_default() {
        assert_eq!(Shared::of(None), Shared::WithNobody);
        assert_eq!(Shared::of(Some(&Sharing::default())), Shared::WithNobody);
    }
}

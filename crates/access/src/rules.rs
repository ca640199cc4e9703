//! The roles and bindings that are in force.
use crate::decide::SYSTEM;
use orrery_hub::ObjectName;
use orrery_pki::Subject;
use orrery_proto::core::v1::{Role, RoleBinding};
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// Permits some verbs on some resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    /// All, when there is none.
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// All, when there is none.
    pub names: Vec<String>,
}

impl Rule {
    pub fn everything() -> Self {
        Self::of(&["*"], &["*"], &["*"])
    }

    fn of(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            verbs: owned(verbs),
            groups: owned(groups),
            resources: owned(resources),
            names: Vec::new(),
        }
    }
}

/// A binding, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub project: String,
    pub name: String,
    pub role: String,
    users: Vec<String>,
    groups: Vec<String>,
}

impl Binding {
    pub fn is_for(&self, subject: &Subject) -> bool {
        self.users.contains(&subject.name) || self.groups.iter().any(|group| subject.is_in(group))
    }
}

/// Every role and binding of a moment. There may be very many, so a change is taken in by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    roles: HashMap<ObjectName, Vec<Rule>>,
    /// By project, in the order of their names.
    bindings: BTreeMap<String, Vec<Binding>>,
}

impl Rules {
    pub fn new<'a>(
        roles: impl IntoIterator<Item = (ObjectName, &'a Role)>,
        bindings: impl IntoIterator<Item = (ObjectName, &'a RoleBinding)>,
    ) -> Self {
        let mut rules = Self::default();
        for (name, role) in roles {
            rules.set_role(&name, Some(role));
        }
        for (name, binding) in bindings {
            rules.set_binding(&name, Some(binding));
        }
        rules
    }

    /// Takes in a role as it is now, or that it is gone.
    pub fn set_role(&mut self, name: &ObjectName, role: Option<&Role>) {
        match role {
            Some(role) => self.roles.insert(name.clone(), read_role(role)),
            None => self.roles.remove(name),
        };
    }

    /// The same for a binding.
    pub fn set_binding(&mut self, name: &ObjectName, binding: Option<&RoleBinding>) {
        let there = self.bindings.entry(name.project.clone()).or_default();
        let place = there.binary_search_by(|known| known.name.cmp(&name.name));
        match (place, binding) {
            (Ok(place), Some(binding)) => there[place] = read_binding(name, binding),
            (Err(place), Some(binding)) => there.insert(place, read_binding(name, binding)),
            (Ok(place), None) => drop(there.remove(place)),
            (Err(_), None) => {}
        }
        if there.is_empty() {
            self.bindings.remove(&name.project);
        }
    }

    /// These roles, bound to nobody but one, in one project.
    pub fn bound_only_to(&self, subject: &Subject, project: &str, role: &str) -> Self {
        let binding = Binding {
            project: project.to_owned(),
            name: subject.name.clone(),
            role: role.to_owned(),
            users: vec![subject.name.clone()],
            groups: Vec::new(),
        };
        let bindings = BTreeMap::from([(project.to_owned(), vec![binding])]);
        Self { roles: self.roles.clone(), bindings }
    }

    /// The bindings that count in a project: its own, and those that hold everywhere.
    pub fn bindings_in(&self, project: &str) -> impl Iterator<Item = &Binding> {
        let own = if project == SYSTEM { None } else { self.bindings.get(project) };
        let everywhere = self.bindings.get(SYSTEM);
        own.into_iter().chain(everywhere).flatten()
    }

    /// The rules of every role of this name that a binding of the project could mean: one of its own,
    /// one of `system`, and one of those that every server knows.
    pub fn named(&self, project: &str, role: &str) -> Vec<&[Rule]> {
        let find = |project: &str| self.roles.get(&ObjectName::new(project, role));
        let own = (project != SYSTEM).then(|| find(project)).flatten();
        let known = Some(built_in(role)).filter(|rules| !rules.is_empty());
        own.into_iter().chain(find(SYSTEM)).map(Vec::as_slice).chain(known).collect()
    }

    /// The rules of the role that a binding names: one of its own project, else one of `system`, else
    /// one of those that every server knows. None, if there is no such role.
    pub fn rules_of(&self, binding: &Binding) -> &[Rule] {
        let find = |project: &str| self.roles.get(&ObjectName::new(project, &binding.role));
        let found = find(&binding.project).or_else(|| find(SYSTEM));
        found.map_or_else(|| built_in(&binding.role), Vec::as_slice)
    }
}

/// What people read; secrets are not among it.
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] =
    &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Kinds of the core group that neither hold secrets nor give access to others.
const OPEN_CORE: &[&str] =
    &["projects", "projects/*", "events", "namespaces", "gitsyncs", "gitsyncs/*"];
const OTHER_GROUPS: &[&str] =
    &["apps", "infra", "storage", "mesh", "split", "access", "specs", "events", "coordination"];

/// The roles that every server knows.
fn built_in(name: &str) -> &'static [Rule] {
    static BUILT_IN: OnceLock<[(&str, Vec<Rule>); 3]> = OnceLock::new();
    let known = BUILT_IN.get_or_init(|| {
        let secrets = Rule::of(WRITE, &["core"], &["secrets"]);
        let everything = |verbs: &[&str]| {
            vec![
                Rule::of(verbs, OTHER_GROUPS, &["*", "*/*"]),
                Rule::of(verbs, &["core", ""], OPEN_CORE),
            ]
        };
        let mut editor = everything(WRITE);
        editor.push(secrets);
        [("viewer", everything(READ)), ("editor", editor), ("admin", vec![Rule::everything()])]
    });
    let found = known.iter().find(|(known, _)| *known == name);
    found.map_or(&[], |(_, rules)| rules.as_slice())
}

pub(crate) fn read_role(role: &Role) -> Vec<Rule> {
    let spec = role.spec.clone().unwrap_or_default();
    let rules = spec.rules.into_iter().map(|rule| Rule {
        verbs: rule.verbs,
        groups: rule.groups,
        resources: rule.resources,
        names: rule.names,
    });
    rules.collect()
}

fn read_binding(name: &ObjectName, binding: &RoleBinding) -> Binding {
    let spec = binding.spec.clone().unwrap_or_default();
    let role = spec.role().to_owned();
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for subject in spec.subjects {
        match subject.kind() {
            "Group" => groups.push(subject.name().to_owned()),
            _ => users.push(subject.name().to_owned()),
        }
    }
    Binding { project: name.project.clone(), name: name.name.clone(), role, users, groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::core::v1::{AccessRule, AccessSubject, RoleBindingSpec, RoleSpec};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn mk_role(verb: &str) -> Role {
        let rule = AccessRule { verbs: vec![verb.into()], ..AccessRule::default() };
        Role { spec: Some(RoleSpec { rules: vec![rule] }), ..Role::default() }
    }

    fn mk_binding(user: &str) -> RoleBinding {
        let subject = AccessSubject { kind: Some("User".into()), name: Some(user.into()) };
        let spec = RoleBindingSpec { role: Some("r".into()), subjects: vec![subject] };
        RoleBinding { spec: Some(spec), ..RoleBinding::default() }
    }

    proptest! {
        /// Changes that are taken in one by one leave the rules of what is there in the end.
        #[test]
        fn changes_one_by_one_are_the_same_as_all_at_once(
            changes in proptest::collection::vec((0..2, "[ab]", "[abc]", proptest::option::of("[xy]")), 0..40)
        ) {
            let (mut roles, mut bindings) = (BTreeMap::new(), BTreeMap::new());
            let mut rules = Rules::default();
            for (kind, project, name, word) in changes {
                let name = ObjectName::new(project, name);
                let role = word.as_deref().filter(|_| kind == 0).map(mk_role);
                let binding = word.as_deref().filter(|_| kind == 1).map(mk_binding);
                match kind {
                    0 => rules.set_role(&name, role.as_ref()),
                    _ => rules.set_binding(&name, binding.as_ref()),
                }
                match kind {
                    0 => drop(roles.remove(&name)),
                    _ => drop(bindings.remove(&name)),
                }
                roles.extend(role.map(|role| (name.clone(), role)));
                bindings.extend(binding.map(|binding| (name, binding)));
            }
            let roles = roles.iter().map(|(name, role)| (name.clone(), role));
            let bindings = bindings.iter().map(|(name, binding)| (name.clone(), binding));
            prop_assert_eq!(rules, Rules::new(roles, bindings));
        }
    }
}

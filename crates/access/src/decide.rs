//! Whether somebody may do something: the one place that says so, and it touches nothing.
//!
//! ```text
//!   plain connection, server, group orrery:admins ──> everything
//!   people ──> the rules of the roles that are bound to them or to their groups:
//!              bindings of the project, and bindings of `system`, which hold everywhere
//!   machines ──> fixed rules
//! ```
use crate::rules::{Binding, Rule, Rules};
use orrery_pki::{ADMINS, KnownBy, Role, Subject};

/// The project whose bindings hold everywhere.
pub const SYSTEM: &str = "system";

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection".
    pub verb: String,
    /// With or without its ending.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// "status", "log"; empty for the resource itself.
    pub subresource: String,
    /// Empty means everywhere, or that the kind has no project.
    pub project: String,
    /// Empty where no single object is meant.
    pub name: String,
}

impl Attributes {
    pub fn new(verb: &str, group: &str, resource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn named(mut self, project: &str, name: &str) -> Self {
        (self.project, self.name) = (project.to_owned(), name.to_owned());
        self
    }

    #[must_use]
    pub fn part(mut self, subresource: &str) -> Self {
        subresource.clone_into(&mut self.subresource);
        self
    }
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed(String),
    Denied(String),
}

impl Decision {
    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Allowed(why) | Self::Denied(why) => why,
        }
    }
}

/// Decides.
pub fn decide(rules: &Rules, subject: &Subject, asked: &Attributes) -> Decision {
    if let Some(why) = everything(subject) {
        return Decision::Allowed(why.to_owned());
    }
    match subject.role {
        None | Some(Role::Server) => Decision::Denied("nobody is known here".to_owned()),
        Some(Role::User) => by_roles(rules, subject, asked),
        Some(Role::Agent | Role::Driver | Role::Proxy | Role::Controller | Role::Host) => {
            by_fixed_rules(subject, asked)
        }
    }
}

/// Those who may do everything, and why.
pub(crate) fn everything(subject: &Subject) -> Option<&'static str> {
    match (subject.known_by, subject.role) {
        (KnownBy::Plain, _) => Some("plain connections of this machine are trusted"),
        (KnownBy::Certificate, Some(Role::Server)) => Some("servers act for all of us"),
        (_, Some(Role::User)) if subject.is_in(ADMINS) => Some("the group orrery:admins may"),
        (_, _) => None,
    }
}

fn by_roles(rules: &Rules, subject: &Subject, asked: &Attributes) -> Decision {
    for binding in rules.bindings_in(&asked.project).filter(|binding| binding.is_for(subject)) {
        if rules.rules_of(binding).iter().any(|rule| permits(rule, asked)) {
            let Binding { project, name, role, .. } = binding;
            let why = format!("role binding {project}/{name} gives the role {role:?}");
            return Decision::Allowed(why);
        }
    }
    Decision::Denied(format!("no role binding gives {:?} that", subject.name))
}

/// Machines see what is theirs and change nothing; what they report goes over their own connection.
fn by_fixed_rules(subject: &Subject, asked: &Attributes) -> Decision {
    let own = fixed_rules(subject).iter().any(|rule| permits(rule, asked));
    let role = subject.role.map_or("machine", Role::as_str);
    if own {
        return Decision::Allowed(format!("it is the {role}'s own"));
    }
    Decision::Denied(format!("{role} {:?} may only see what is its own", subject.name))
}

/// The rules of a machine.
pub fn fixed_rules(subject: &Subject) -> Vec<Rule> {
    let own = |group: &str, resource: &str| Rule {
        verbs: vec!["get".to_owned()],
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        names: vec![subject.name.clone()],
    };
    match subject.role {
        Some(Role::Agent) => vec![own("infra", "nodes")],
        Some(Role::Driver) => vec![own("infra", "drivers")],
        Some(Role::Proxy) => vec![own("mesh", "proxies")],
        Some(Role::Controller) => vec![own("storage", "storagecontrollers")],
        Some(Role::Host | Role::Server | Role::User) | None => Vec::new(),
    }
}

/// Everything that somebody may do in a project, for people to read.
pub fn permissions(rules: &Rules, subject: &Subject, project: &str) -> Vec<Rule> {
    if everything(subject).is_some() {
        return vec![Rule::everything()];
    }
    if subject.role != Some(Role::User) {
        return fixed_rules(subject);
    }
    let bindings = rules.bindings_in(project).filter(|binding| binding.is_for(subject));
    bindings.flat_map(|binding| rules.rules_of(binding).to_vec()).collect()
}

/// Whether one rule permits it.
pub(crate) fn permits(rule: &Rule, asked: &Attributes) -> bool {
    let any = |words: &[String], word: &str| words.iter().any(|own| own == "*" || own == word);
    let group = asked.group.split('.').next().unwrap_or_default();
    let groups =
        rule.groups.is_empty() || any(&rule.groups, &asked.group) || any(&rule.groups, group);
    let names = rule.names.is_empty() || any(&rule.names, &asked.name);
    any(&rule.verbs, &asked.verb) && groups && names && resource_fits(&rule.resources, asked)
}

/// A subresource is named together with its resource, or by a star for either.
fn resource_fits(resources: &[String], asked: &Attributes) -> bool {
    let Attributes { resource, subresource, .. } = asked;
    resources.iter().any(|own| match (own.split_once('/'), subresource.is_empty()) {
        (None, true) => own == "*" || own == resource,
        (None, false) => own == "*",
        (Some(_), true) => false,
        (Some((of, part)), false) => {
            (of == "*" || of == resource) && (part == "*" || part == subresource)
        }
    })
}

#[cfg(test)]
pub(crate) mod tests;

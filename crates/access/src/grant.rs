//! Whether somebody may give what they want to give: nobody gives away more than they have. It touches
//! nothing.
//!
//! ```text
//!   a Role ────────> who writes it holds all its rules in its project, or may `escalate` that role
//!   a RoleBinding ─> who writes it holds all rules of the role it names, or may `bind` that role
//!   a GitSync ─────> who writes it could bind its role, and may read the secrets that it names
//!   an AccessToken ─> it stands for who writes it, in groups of theirs, or they may `impersonate`
//!   a Revocation ──> it is of somebody else
//!   what is shared ─> who shares it with a project may create such objects there; what is secret in it, they may
//!                     read themselves
//! ```
use crate::decide::{Attributes, SYSTEM, decide, permissions};
use crate::revoked::Revoked;
use crate::rules::{Rule, Rules, read_role};
use orrery_api::{EVERY_PROJECT, Kind, Object, Shared};
use orrery_pki::Subject;
use orrery_proto::core::v1::{AccessToken, GitSync, GitSyncSpec, Revocation, Role, RoleBinding};

const CORE: &str = "core";
const ROLES: &str = "roles";

/// What somebody would give away without having it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error(
        "user {who:?} cannot give what they do not have: {}; they would need it {}, or the verb \"escalate\" on roles",
        shown(.rule), place(.project)
    )]
    Rules { who: String, rule: Box<Rule>, project: String },
    #[error(
        "user {who:?} cannot bind the role {role:?}, which gives what they do not have: {}; they would need it {}, or the verb \"bind\" on that role",
        shown(.rule), place(.project)
    )]
    Binding { who: String, role: String, rule: Box<Rule>, project: String },
    #[error(
        "user {who:?} cannot bind the role {role:?}, which is not there yet: create it first, or have the verb \"bind\" on that role"
    )]
    NoRole { who: String, role: String },
    #[error(
        "user {who:?} cannot make a token for {what}: it would need the verb \"impersonate\" on {resource}"
    )]
    Impersonation { who: String, what: String, resource: &'static str },
    #[error(
        "user {who:?} cannot have the secret {secret:?} sent to a repository: they would need the verb \"get\" on it in project {project:?}"
    )]
    Secret { who: String, secret: String, project: String },
    #[error(
        "user {who:?} cannot share {name:?} with {}: they would need the verb \"create\" on {resource} {}",
        readers(.project), place(.project)
    )]
    Sharing { who: String, name: String, resource: String, project: String },
    #[error(
        "user {who:?} cannot share {name:?}, which they may not read: they would need the verb \"get\" on {resource} in project {project:?}"
    )]
    Unread { who: String, name: String, resource: String, project: String },
    #[error(
        "user {who:?} would lock themselves out: whoever disables an identity does so with another one"
    )]
    Yourself { who: String },
}

/// Whether a role with these rules may be written.
pub fn may_write_role(
    rules: &Rules,
    subject: &Subject,
    (project, name): (&str, &str),
    wanted: &[Rule],
) -> Result<(), Excess> {
    let escalate = Attributes::new("escalate", CORE, ROLES).named(project, name);
    if decide(rules, subject, &escalate).allowed() {
        return Ok(());
    }
    match missing(&permissions(rules, subject, project), wanted) {
        None => Ok(()),
        Some(rule) => {
            let (who, rule) = (subject.name.clone(), Box::new(rule));
            Err(Excess::Rules { who, rule, project: project.to_owned() })
        }
    }
}

/// Whether a role may be bound in a project. All roles of that name count that the binding could come
/// to mean when others go.
pub fn may_bind(rules: &Rules, subject: &Subject, project: &str, role: &str) -> Result<(), Excess> {
    let bind = Attributes::new("bind", CORE, ROLES).named(project, role);
    if decide(rules, subject, &bind).allowed() {
        return Ok(());
    }
    let named = rules.named(project, role);
    let who = || subject.name.clone();
    if named.is_empty() {
        return Err(Excess::NoRole { who: who(), role: role.to_owned() });
    }
    let held = permissions(rules, subject, project);
    let missing = named.into_iter().find_map(|wanted| missing(&held, wanted));
    match missing {
        None => Ok(()),
        Some(rule) => Err(Excess::Binding {
            who: who(),
            role: role.to_owned(),
            rule: Box::new(rule),
            project: project.to_owned(),
        }),
    }
}

/// Whether a token may be made that stands for somebody.
pub fn may_stand_for(
    rules: &Rules,
    subject: &Subject,
    user: &str,
    groups: &[String],
) -> Result<(), Excess> {
    let may = |resource: &'static str, name: &str, what: String| {
        let asked = Attributes::new("impersonate", CORE, resource).named("", name);
        if decide(rules, subject, &asked).allowed() {
            return Ok(());
        }
        Err(Excess::Impersonation { who: subject.name.clone(), what, resource })
    };
    if subject.name != user {
        may("users", user, format!("user {user:?}"))?;
    }
    for group in groups.iter().filter(|group| !subject.is_in(group)) {
        may("groups", group, format!("group {group:?}"))?;
    }
    Ok(())
}

/// Whether a sync may be written that acts by a role, shows a secret to a repository, and signs with one.
pub fn may_sync(
    rules: &Rules,
    subject: &Subject,
    project: &str,
    spec: &GitSyncSpec,
) -> Result<(), Excess> {
    // What is given before its default is filled in is judged by the default.
    let role = if spec.role().is_empty() { DEFAULT_SYNC_ROLE } else { spec.role() };
    may_bind(rules, subject, project, role)?;
    let signing = spec.write_back.as_ref().map_or("", |back| back.signing_secret());
    for secret in [spec.secret(), signing].into_iter().filter(|secret| !secret.is_empty()) {
        let read = Attributes::new("get", CORE, "secrets").named(project, secret);
        if !decide(rules, subject, &read).allowed() {
            let (who, secret) = (subject.name.clone(), secret.to_owned());
            return Err(Excess::Secret { who, secret, project: project.to_owned() });
        }
    }
    Ok(())
}

/// As the definition of the kind has it.
const DEFAULT_SYNC_ROLE: &str = "editor";

/// Combinations of words of one rule that are looked at one by one. A rule of more is given only by
/// those who hold it in one piece: nobody makes a server compare for minutes.
const ATOMS_MAX: usize = 10_000;

/// The first of the wanted rules, or the first part of one, that is not held.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Option<Rule> {
    wanted.iter().find_map(|wanted| missing_of(held, &explicit(wanted)))
}

fn missing_of(held: &[Rule], wanted: &Rule) -> Option<Rule> {
    let is_held = |wanted: &Rule| held.iter().any(|rule| covers(rule, wanted));
    let Rule { verbs, groups, resources, names } = wanted;
    let count = [verbs, groups, resources, names].map(Vec::len);
    let count = count.into_iter().fold(1_usize, usize::saturating_mul);
    if count == 0 || is_held(wanted) {
        return None;
    }
    if ATOMS_MAX < count {
        return Some(wanted.clone());
    }
    atoms(wanted).find(|atom| !is_held(atom))
}

/// The same rule, with a star where none is all.
fn explicit(rule: &Rule) -> Rule {
    let all = |words: &[String]| match words {
        [] => vec!["*".to_owned()],
        words => words.to_vec(),
    };
    Rule { groups: all(&rule.groups), names: all(&rule.names), ..rule.clone() }
}

/// A rule as rules of one word each, of which it is the sum.
fn atoms(rule: &Rule) -> impl Iterator<Item = Rule> + '_ {
    let one = |word: &String| vec![word.clone()];
    rule.verbs.iter().flat_map(move |verb| {
        rule.resources.iter().flat_map(move |resource| {
            rule.groups.iter().flat_map(move |group| {
                rule.names.iter().map(move |name| Rule {
                    verbs: one(verb),
                    groups: one(group),
                    resources: one(resource),
                    names: one(name),
                })
            })
        })
    })
}

/// Whether one rule permits all that another does, which names everything it means.
fn covers(rule: &Rule, other: &Rule) -> bool {
    let all = |own: &[String], other: &[String], fits: fn(&str, &str) -> bool| {
        other.iter().all(|other| own.iter().any(|own| own == "*" || fits(own, other)))
    };
    let same = |own: &str, other: &str| own == other;
    let group = |own: &str, other: &str| own == other || Some(own) == other.split('.').next();
    (rule.groups.is_empty() || all(&rule.groups, &other.groups, group))
        && (rule.names.is_empty() || all(&rule.names, &other.names, same))
        && all(&rule.verbs, &other.verbs, same)
        && all(&rule.resources, &other.resources, resource_covers)
}

fn resource_covers(own: &str, other: &str) -> bool {
    match (own.split_once('/'), other.split_once('/')) {
        (None, None) => own == other,
        (Some((of, part)), Some((other_of, other_part))) => {
            (of == "*" || of == other_of) && (part == "*" || part == other_part)
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Words of a rule that a message shows.
const WORDS_SHOWN: usize = 8;

/// `get secrets of core`, for people.
fn shown(rule: &Rule) -> String {
    let words = |words: &[String]| match words {
        [] => "*".to_owned(),
        words if WORDS_SHOWN < words.len() => format!("{},...", words[..WORDS_SHOWN].join(",")),
        words => words.join(","),
    };
    let names = match words(&rule.names).as_str() {
        "*" => String::new(),
        names => format!(" named {names}"),
    };
    let Rule { verbs, groups, resources, .. } = rule;
    format!("{} {} of {}{names}", words(verbs), words(resources), words(groups))
}

fn place(project: &str) -> String {
    match project {
        SYSTEM | "" => "everywhere".to_owned(),
        project => format!("in project {project:?}"),
    }
}

/// In words, who begins to read something.
fn readers(project: &str) -> String {
    match project {
        "" => "all projects".to_owned(),
        project => format!("project {project:?}"),
    }
}

/// Whether an object may be shared. For a project, what is shared with it is as if somebody had made it there: its
/// objects may come to mean it. And nobody comes to read what they may not by sharing it with themselves.
fn may_share(
    rules: &Rules,
    subject: &Subject,
    next: &Object,
    old: Option<&Object>,
) -> Result<(), Excess> {
    let shared = |object: &Object| Shared::of(object.sharing().as_ref());
    let new = shared(next).beyond(&old.map_or(Shared::WithNobody, shared));
    if new.is_empty() {
        return Ok(());
    }
    let kind = next.kind();
    let (who, name, resource) =
        (subject.name.clone(), next.name().to_owned(), kind.plural().to_owned());
    let may = |verb: &str, project: &str| {
        let asked = Attributes::new(verb, kind.group(), kind.plural()).named(project, &name);
        decide(rules, subject, &asked).allowed()
    };
    if kind.has_secrets() && !may("get", next.project()) {
        return Err(Excess::Unread { who, name, resource, project: next.project().to_owned() });
    }
    let place = |project: &String| match project.as_str() {
        EVERY_PROJECT => String::new(),
        project => project.to_owned(),
    };
    match new.iter().map(place).find(|project| !may("create", project)) {
        None => Ok(()),
        Some(project) => Err(Excess::Sharing { who, name, resource, project }),
    }
}

/// Nobody gives away more than they have. What stays as it is, is given already.
pub fn may_give(
    rules: &Rules,
    subject: &Subject,
    next: &Object,
    old: Option<&Object>,
) -> Result<(), Excess> {
    // What cannot be read as its kind is refused later, with its own words.
    match next.kind().full_name() {
        ROLE => {
            let rules_of = |object: &Object| object.typed::<Role>().map(|role| read_role(&role));
            let wanted = rules_of(next).unwrap_or_default();
            if old.is_some_and(|old| rules_of(old).is_ok_and(|old| old == wanted)) {
                return Ok(());
            }
            may_write_role(rules, subject, (next.project(), next.name()), &wanted)
        }
        ROLE_BINDING => {
            let spec_of = |object: &Object| object.typed::<RoleBinding>().map(|it| it.spec);
            let wanted = spec_of(next).ok().flatten().unwrap_or_default();
            if old.is_some_and(|old| spec_of(old).is_ok_and(|old| old.as_ref() == Some(&wanted))) {
                return Ok(());
            }
            may_bind(rules, subject, next.project(), wanted.role())
        }
        GIT_SYNC => {
            let spec_of = |object: &Object| object.typed::<GitSync>().map(|it| it.spec);
            let wanted = spec_of(next).ok().flatten().unwrap_or_default();
            if old.is_some_and(|old| spec_of(old).is_ok_and(|old| old.as_ref() == Some(&wanted))) {
                return Ok(());
            }
            may_sync(rules, subject, next.project(), &wanted)
        }
        ACCESS_TOKEN => {
            let spec_of = |object: &Object| object.typed::<AccessToken>().map(|it| it.spec);
            let wanted = spec_of(next).ok().flatten().unwrap_or_default();
            if old.is_some_and(|old| spec_of(old).is_ok_and(|old| old.as_ref() == Some(&wanted))) {
                return Ok(());
            }
            may_stand_for(rules, subject, wanted.user(), &wanted.groups)
        }
        REVOCATION => {
            let revocation = next.typed::<Revocation>().unwrap_or_default();
            let own = Revoked::new([&revocation]).refuses_subject(subject);
            if own { Err(Excess::Yourself { who: subject.name.clone() }) } else { Ok(()) }
        }
        _ => may_share(rules, subject, next, old),
    }
}

/// Whether objects of a kind give access to others, or take it away.
pub fn gives_access(kind: &Kind) -> bool {
    kind.shareable()
        || [ROLE, ROLE_BINDING, ACCESS_TOKEN, GIT_SYNC, REVOCATION].contains(&kind.full_name())
}

const ROLE: &str = "orrery.core.v1.Role";
const ROLE_BINDING: &str = "orrery.core.v1.RoleBinding";
const ACCESS_TOKEN: &str = "orrery.core.v1.AccessToken";
const GIT_SYNC: &str = "orrery.core.v1.GitSync";
const REVOCATION: &str = "orrery.core.v1.Revocation";

#[cfg(test)]
mod tests;

//! Who is answered at all, and the questions of clients about what they may do.
use super::failure::{Cause, Failure};
use crate::identity::Guard;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use orrery_access::Rule;
use orrery_api::Scheme;
use orrery_fleet::middleware::Peer;
use orrery_pki::KnownBy;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The group, in the words of rules, whose kinds may have a second face.
const CORE: &str = "core";

/// What can be read that is no resource.
const OWN_PATHS: [&str; 8] =
    ["/api", "/apis", "/openapi", "/version", "/metrics", "/healthz", "/livez", "/readyz"];

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    Resource(orrery_access::Attributes),
    Path { verb: String, path: String },
}

impl Attributes {
    /// From the `spec` of a kind of access reviews: exactly one of its two forms.
    pub fn of(kind: &str, spec: &Value) -> Result<Self, Failure> {
        let text = |from: &Value, key: &str| {
            from.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
            (Some(asked), None | Some(Value::Null)) => {
                let (group, resource) = own_name(&text(asked, "group"), &text(asked, "resource"));
                Ok(Self::Resource(orrery_access::Attributes {
                    verb: text(asked, "verb"),
                    group,
                    resource,
                    subresource: text(asked, "subresource"),
                    project: text(asked, "namespace"),
                    name: text(asked, "name"),
                }))
            }
            (None | Some(Value::Null), Some(asked)) => {
                Ok(Self::Path { verb: text(asked, "verb"), path: text(asked, "path") })
            }
            (None, None) | (Some(_), Some(_)) => {
                let message = "Invalid value: exactly one of resourceAttributes and nonResourceAttributes must be there";
                let cause = Cause::new("FieldValueInvalid", "spec", message);
                Err(Failure::invalid("authorization.k8s.io", kind, "", &[cause]))
            }
        }
    }
}

/// What has other faces is known to rules by its own name.
fn own_name(group: &str, resource: &str) -> (String, String) {
    match (group, resource) {
        ("events.k8s.io", "events") => (CORE.to_owned(), "events".to_owned()),
        ("", "namespaces") => (CORE.to_owned(), "projects".to_owned()),
        ("", resource) => (CORE.to_owned(), resource.to_owned()),
        (group, resource) => (group.to_owned(), resource.to_owned()),
    }
}

/// Refuses those who have not proven who they are. What the others may do is decided where it is
/// known what they ask for; what the server can do at all, everybody who is known may read.
pub async fn only_known(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    if peer.subject().known_by == KnownBy::Nothing {
        return super::unauthorized();
    }
    next.run(request).await
}

/// Whether somebody may do something, and why.
pub fn allowed(guard: &Guard, attributes: &Attributes) -> (bool, String) {
    match attributes {
        Attributes::Resource(asked) => {
            let decision = guard.decide(asked);
            (decision.allowed(), decision.reason().to_owned())
        }
        Attributes::Path { verb, path } => {
            let (allowed, reason) = path_allowed(guard, verb, path);
            (allowed, reason.to_owned())
        }
    }
}

/// What the server itself can do, everybody who is known may read. Paths of others, about which a service asks, are for
/// those who may do everything: rules are about resources.
fn path_allowed(guard: &Guard, verb: &str, path: &str) -> (bool, &'static str) {
    let within = |own: &&str| {
        path.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if guard.may_everything() {
        (true, "whoever may do everything may do this")
    } else if !OWN_PATHS.iter().any(within) {
        (false, "no rule is about paths, and this is none of the server's own")
    } else if guard.subject().role.is_some() && verb == "get" {
        (true, "everybody who is known may read what the server can do")
    } else {
        (false, "paths of the server can only be read, by those who are known")
    }
}

/// All that somebody may do: rules on resources and on other paths, in the words of discovery.
pub fn rules(guard: &Guard, scheme: &Scheme, project: &str) -> (Value, Value) {
    let known: BTreeSet<&str> = scheme.kinds().map(|kind| kind.group()).collect();
    let mut resources = Vec::new();
    for rule in guard.permissions(project) {
        let faces = core_faces(&rule);
        let groups: BTreeSet<String> =
            rule.groups.iter().flat_map(|word| full_names(&known, word)).collect();
        let all = groups.is_empty() || groups.contains("*");
        let groups = if all { vec!["*".to_owned()] } else { groups.into_iter().collect() };
        resources.push(rule_of(&rule, &groups, &rule.resources));
        if !all && !faces.is_empty() {
            resources.push(rule_of(&rule, &[String::new()], &faces));
        }
    }
    let paths = match guard.may_everything() {
        true => json!([{ "verbs": ["*"], "nonResourceURLs": ["*"] }]),
        false => {
            let all = OWN_PATHS.iter().flat_map(|own| [(*own).to_owned(), format!("{own}/*")]);
            json!([{ "verbs": ["get"], "nonResourceURLs": all.collect::<Vec<_>>() }])
        }
    };
    (json!(resources), paths)
}

fn rule_of(rule: &Rule, groups: &[String], resources: &[String]) -> Value {
    let mut said = json!({ "verbs": rule.verbs, "apiGroups": groups, "resources": resources });
    if !rule.names.is_empty() {
        said["resourceNames"] = json!(rule.names);
    }
    said
}

/// The groups that a word of a rule means, as discovery calls them. One that is none of ours stays as it is.
fn full_names(known: &BTreeSet<&str>, word: &str) -> Vec<String> {
    let fits = |group: &&&str| group.split('.').next() == Some(word);
    let full: Vec<String> = known.iter().filter(fits).map(|group| (*group).to_owned()).collect();
    if full.is_empty() { vec![word.to_owned()] } else { full }
}

/// What a rule permits of the resources that have a second face in the core group of the dialect.
fn core_faces(rule: &Rule) -> Vec<String> {
    if !rule.groups.iter().any(|group| group.split('.').next() == Some(CORE)) {
        return Vec::new();
    }
    let face = |own: &String| match own.as_str() {
        "*" | "events" => Some(own.clone()),
        "projects" => Some("namespaces".to_owned()),
        _ => None,
    };
    rule.resources.iter().filter_map(face).collect()
}

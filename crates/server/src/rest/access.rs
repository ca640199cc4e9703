//! Who asks, and what they may do.
//!
//! On an encrypted connection only people and their programs are answered: who shows a certificate
//! of the role `user`. There is no finer authorization yet: whoever is answered may do everything,
//! and the access reviews say so. What they depend on goes through [`allowed`].
use super::failure::{Cause, Failure};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use orrery_fleet::middleware::Peer;
use orrery_pki::Role;
use serde_json::{Value, json};

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    Resource { verb: String, group: String, resource: String, project: String, name: String },
    Path { verb: String, path: String },
}

impl Attributes {
    /// From the `spec` of an access review: exactly one of its two forms.
    pub fn of(spec: &Value) -> Result<Self, Failure> {
        let text = |from: &Value, key: &str| {
            from.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
            (Some(asked), None | Some(Value::Null)) => Ok(Self::Resource {
                verb: text(asked, "verb"),
                group: text(asked, "group"),
                resource: text(asked, "resource"),
                project: text(asked, "namespace"),
                name: text(asked, "name"),
            }),
            (None | Some(Value::Null), Some(asked)) => {
                Ok(Self::Path { verb: text(asked, "verb"), path: text(asked, "path") })
            }
            (None, None) | (Some(_), Some(_)) => {
                let message = "Invalid value: exactly one of resourceAttributes and nonResourceAttributes must be there";
                let cause = Cause::new("FieldValueInvalid", "spec", message);
                let (group, kind) = ("authorization.k8s.io", "SelfSubjectAccessReview");
                Err(Failure::invalid(group, kind, "", &[cause]))
            }
        }
    }
}

/// Lets people and their programs through.
pub async fn only_users(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    if peer.has_role(Role::User) {
        return next.run(request).await;
    }
    Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized").into_response()
}

/// Whether a peer may do something. Plain connections are taken from this machine only, or where the
/// operator said so; on encrypted ones every user is trusted.
pub fn allowed(peer: &Peer, attributes: &Attributes) -> bool {
    tracing::trace!(?peer, ?attributes, "access review");
    peer.has_role(Role::User)
}

/// All that a peer may do: rules on resources and on other paths.
pub fn rules(peer: &Peer) -> (Value, Value) {
    let everything = Attributes::Path { verb: "*".into(), path: "*".into() };
    if !allowed(peer, &everything) {
        return (json!([]), json!([]));
    }
    (
        json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]),
        json!([{ "verbs": ["*"], "nonResourceURLs": ["*"] }]),
    )
}

/// The name and the groups of a peer, in the words of the dialect.
pub fn subject(peer: &Peer) -> (String, Vec<String>) {
    let Some(identity) = &peer.identity else {
        return ("system:anonymous".to_owned(), vec!["system:unauthenticated".to_owned()]);
    };
    let name = identity.name().unwrap_or("unknown").to_owned();
    let role = identity.role().map(|role| format!("orrery:{}", role.as_str()));
    (name, role.into_iter().chain(["system:authenticated".to_owned()]).collect())
}

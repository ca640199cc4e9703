//! Questions that are answered at once and stored nowhere.
//!
//! ```text
//!   who am I, what may I do              everybody who is known
//!   who shows this token, what may       those who may create such reviews: services that ask
//!   somebody do                          here who their own clients are
//! ```
mod others;

use super::accept;
use super::access::{self, Attributes};
use super::body;
use super::failure::Failure;
use super::render;
use super::{Rest, not_allowed};
use crate::identity::Guard;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use orrery_api::Scheme;
use orrery_fleet::middleware::Peer;
#[cfg(feature = "fuzzing")]
pub use others::check_spec;
use serde_json::{Value, json};

pub const AUTHORIZATION: &str = "authorization.k8s.io/v1";
const AUTHENTICATION: &str = "authentication.k8s.io/v1";
const AUTHENTICATION_BETA: &str = "authentication.k8s.io/v1beta1";

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// What the one who asks may do.
    OwnAccess,
    OwnRules,
    /// Who it is that asks.
    Myself,
    /// The same, as kubectl 1.27 asks it.
    MyselfBeta,
    /// Who shows a token.
    Token,
    /// What somebody may do.
    Access,
    /// The same in one project.
    LocalAccess,
}

/// Those that discovery tells of.
pub const REVIEWS: [Review; 6] = [
    Review::OwnAccess,
    Review::OwnRules,
    Review::Myself,
    Review::Token,
    Review::Access,
    Review::LocalAccess,
];

impl Review {
    /// The review at a path, if there is one, and the project that it is asked in.
    pub fn find(group: &str, version: &str, rest: &[&str]) -> Option<(Self, String)> {
        let (project, plural) = match rest {
            [plural] => ("", plural),
            ["namespaces" | "projects", project, plural] => (*project, plural),
            _ => return None,
        };
        let name = format!("{group}/{version}");
        let fits = |review: &Self| {
            review.group_version() == name
                && review.plural() == *plural
                && review.namespaced() != project.is_empty()
        };
        let mut known = REVIEWS.into_iter().chain([Self::MyselfBeta]);
        Some((known.find(fits)?, project.to_owned()))
    }

    pub fn group_version(&self) -> &'static str {
        match self {
            Self::OwnAccess | Self::OwnRules | Self::Access | Self::LocalAccess => AUTHORIZATION,
            Self::Myself | Self::Token => AUTHENTICATION,
            Self::MyselfBeta => AUTHENTICATION_BETA,
        }
    }

    pub fn group(self) -> &'static str {
        self.group_version().split('/').next().unwrap_or_default()
    }

    pub fn plural(self) -> String {
        format!("{}s", self.kind().to_lowercase())
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::OwnAccess => "SelfSubjectAccessReview",
            Self::OwnRules => "SelfSubjectRulesReview",
            Self::Myself | Self::MyselfBeta => "SelfSubjectReview",
            Self::Token => "TokenReview",
            Self::Access => "SubjectAccessReview",
            Self::LocalAccess => "LocalSubjectAccessReview",
        }
    }

    pub fn namespaced(self) -> bool {
        self == Self::LocalAccess
    }

    /// Whether it is about somebody else, whose affairs are not everybody's.
    fn is_about_others(self) -> bool {
        matches!(self, Self::Token | Self::Access | Self::LocalAccess)
    }

    /// Refuses those who may not ask this.
    fn check_asker(self, guard: &Guard, project: &str) -> Result<(), Failure> {
        if !self.is_about_others() {
            return Ok(());
        }
        let (group, plural) = (self.group(), self.plural());
        let asked = orrery_access::Attributes::new("create", group, &plural).named(project, "");
        guard.refuse_unless(&asked).map_err(|error| {
            let message = format!("{plural}.{group} is forbidden: {error}");
            Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, &plural, "")
        })
    }

    /// The question with its answer in it.
    async fn answer(self, asking: &Asking<'_>, asked: &Value) -> Result<Value, Failure> {
        self.check(asked)?;
        let spec = asked.get("spec").cloned().unwrap_or_else(|| json!({}));
        let status = self.status(asking, &spec).await?;
        let metadata = match self.namespaced() {
            true => json!({ "namespace": asking.project }),
            false => json!({}),
        };
        let mut answer = json!({
            "apiVersion": self.group_version(), "kind": self.kind(), "metadata": metadata,
        });
        if !matches!(self, Self::Myself | Self::MyselfBeta) {
            answer["spec"] = spec;
        }
        answer["status"] = status;
        Ok(answer)
    }

    async fn status(self, asking: &Asking<'_>, spec: &Value) -> Result<Value, Failure> {
        Ok(match self {
            Self::OwnAccess => {
                let asked = Attributes::of(self.kind(), spec)?;
                let (allowed, reason) = access::allowed(&asking.guard, &asked);
                json!({ "allowed": allowed, "reason": reason })
            }
            Self::OwnRules => {
                let project = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
                let (resources, others) = access::rules(&asking.guard, asking.scheme, project);
                json!({
                    "resourceRules": resources, "nonResourceRules": others, "incomplete": false,
                })
            }
            Self::Myself | Self::MyselfBeta => {
                json!({ "userInfo": user_info(&asking.peer) })
            }
            Self::Token => others::token(&asking.guard, spec).await?,
            Self::Access => others::access(&asking.guard, self.kind(), None, spec)?,
            Self::LocalAccess => {
                others::access(&asking.guard, self.kind(), Some(asking.project), spec)?
            }
        })
    }

    fn check(self, asked: &Value) -> Result<(), Failure> {
        if !asked.is_object() {
            return Err(Failure::bad_request("the body of the request must be an object"));
        }
        let expected = [("apiVersion", self.group_version()), ("kind", self.kind())];
        for (key, expected) in expected {
            match asked.get(key) {
                None | Some(Value::Null) => {}
                Some(found) if found == expected => {}
                Some(found) => {
                    let message = format!("{key} is {found}, expected {expected:?}");
                    return Err(Failure::bad_request(message));
                }
            }
        }
        Ok(())
    }
}

/// Who asks, and where.
struct Asking<'a> {
    guard: Guard,
    scheme: &'a Scheme,
    peer: Peer,
    /// Empty for what is asked in no project.
    project: &'a str,
}

pub async fn answer(
    rest: &Rest,
    review: Review,
    project: &str,
    request: Request,
) -> Result<Response, Failure> {
    if request.method() != Method::POST {
        return Err(not_allowed());
    }
    let form = accept::plain_form(request.headers())?;
    let language = body::language(request.headers())?;
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let guard = rest.guard_of(&request);
    review.check_asker(&guard, project)?;
    let asked = body::value(language, &body::read(request.into_body()).await?)?;
    let asking = Asking { guard, scheme: rest.hub.scheme(), peer, project };
    let value = review.answer(&asking, &asked).await?;
    Ok(render::answer(StatusCode::CREATED, form, &value, &[]))
}

fn user_info(peer: &Peer) -> Value {
    let subject = peer.subject();
    let mut info = json!({ "username": subject.name, "groups": subject.groups });
    if let Some(said) = &peer.impersonation {
        if !said.uid.is_empty() {
            info["uid"] = json!(said.uid);
        }
        if !said.extra.is_empty() {
            info["extra"] = json!(said.extra);
        }
    }
    info
}

//! Questions that clients ask about themselves: who am I, and what may I do.
use super::access::{self, Attributes};
use super::failure::Failure;
use crate::identity::Guard;
use orrery_api::Scheme;
use orrery_fleet::middleware::Peer;
use serde_json::{Value, json};

const AUTHORIZATION: &str = "authorization.k8s.io/v1";
const AUTHENTICATION: &str = "authentication.k8s.io/v1";

/// A question about oneself. Nothing is stored; it is answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    Access,
    Rules,
    Subject,
}

pub const REVIEWS: [Review; 3] = [Review::Access, Review::Rules, Review::Subject];

impl Review {
    /// The review at a path, if there is one.
    pub fn find(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let [plural] = rest else { return None };
        let name = format!("{group}/{version}");
        REVIEWS.into_iter().find(|r| r.group_version() == name && r.plural() == *plural)
    }

    pub fn group_version(&self) -> &'static str {
        match self {
            Self::Access | Self::Rules => AUTHORIZATION,
            Self::Subject => AUTHENTICATION,
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::Access => "selfsubjectaccessreviews",
            Self::Rules => "selfsubjectrulesreviews",
            Self::Subject => "selfsubjectreviews",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::Access => "SelfSubjectAccessReview",
            Self::Rules => "SelfSubjectRulesReview",
            Self::Subject => "SelfSubjectReview",
        }
    }

    /// The question with its answer in it.
    pub fn answer(
        self,
        guard: &Guard,
        scheme: &Scheme,
        peer: &Peer,
        asked: &Value,
    ) -> Result<Value, Failure> {
        self.check(asked)?;
        let spec = asked.get("spec").cloned().unwrap_or_else(|| json!({}));
        let status = match self {
            Self::Access => {
                let (allowed, reason) = access::allowed(guard, &Attributes::of(&spec)?);
                json!({ "allowed": allowed, "reason": reason })
            }
            Self::Rules => {
                let project = spec.get("namespace").and_then(Value::as_str).unwrap_or_default();
                let (resources, others) = access::rules(guard, scheme, project);
                json!({
                    "resourceRules": resources, "nonResourceRules": others, "incomplete": false,
                })
            }
            Self::Subject => json!({ "userInfo": user_info(peer) }),
        };
        let mut answer = json!({
            "apiVersion": self.group_version(), "kind": self.kind(), "metadata": {},
        });
        if self != Self::Subject {
            answer["spec"] = spec;
        }
        answer["status"] = status;
        Ok(answer)
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

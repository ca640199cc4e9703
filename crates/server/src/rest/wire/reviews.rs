//! Questions about access and tokens. Those about oneself and those about others have the same numbers.
use super::metadata::put;
use super::non_empty;
use prost::Message;
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Message)]
pub struct AccessReview {
    #[prost(message, optional, tag = "2")]
    pub spec: Option<AccessSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AccessSpec {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<ResourceAttributes>,
    #[prost(message, optional, tag = "2")]
    pub other: Option<NonResourceAttributes>,
    /// Absent where the one who asks is meant.
    #[prost(string, tag = "3")]
    pub user: String,
    #[prost(string, repeated, tag = "4")]
    pub groups: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceAttributes {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub verb: String,
    #[prost(string, tag = "3")]
    pub group: String,
    #[prost(string, tag = "4")]
    pub version: String,
    #[prost(string, tag = "5")]
    pub resource: String,
    #[prost(string, tag = "6")]
    pub subresource: String,
    #[prost(string, tag = "7")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NonResourceAttributes {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(string, tag = "2")]
    pub verb: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RulesReview {
    #[prost(message, optional, tag = "2")]
    pub spec: Option<RulesSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RulesSpec {
    #[prost(string, tag = "1")]
    pub namespace: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct TokenReview {
    #[prost(message, optional, tag = "2")]
    pub spec: Option<TokenSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TokenSpec {
    #[prost(string, tag = "1")]
    pub token: String,
    #[prost(string, repeated, tag = "2")]
    pub audiences: Vec<String>,
}

impl AccessReview {
    pub fn to_value(&self) -> Value {
        let asked = self.spec.clone().unwrap_or_default();
        let mut spec = non_empty([("user", asked.user)]);
        let groups = Some(asked.groups).filter(|groups| !groups.is_empty());
        let fields = [
            ("groups", groups.map(Value::from)),
            ("resourceAttributes", asked.resource.map(ResourceAttributes::into_value)),
            ("nonResourceAttributes", asked.other.map(NonResourceAttributes::into_value)),
        ];
        put(&mut spec, fields);
        json!({ "spec": spec })
    }
}

impl ResourceAttributes {
    fn into_value(self) -> Value {
        non_empty([
            ("namespace", self.namespace),
            ("verb", self.verb),
            ("group", self.group),
            ("version", self.version),
            ("resource", self.resource),
            ("subresource", self.subresource),
            ("name", self.name),
        ])
    }
}

impl NonResourceAttributes {
    fn into_value(self) -> Value {
        non_empty([("path", self.path), ("verb", self.verb)])
    }
}

impl RulesReview {
    pub fn to_value(&self) -> Value {
        let namespace = self.spec.clone().unwrap_or_default().namespace;
        json!({ "spec": non_empty([("namespace", namespace)]) })
    }
}

impl TokenReview {
    pub fn to_value(&self) -> Value {
        let TokenSpec { token, audiences } = self.spec.clone().unwrap_or_default();
        json!({ "spec": { "token": token, "audiences": audiences } })
    }
}

//! The protobuf envelope of the dialect, for the few kinds that kubectl and programs in Go send in it.
//!
//! ```text
//!   "k8s\0"  Unknown { typeMeta { apiVersion, kind }, raw }
//! ```
//! The messages here hold only the fields that we act on; prost skips the others.
mod events;
mod lease;
mod metadata;
mod reviews;

use super::failure::Failure;
use metadata::Metadata;
use prost::Message;
use serde_json::{Value, json};

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// An object whose kind is known and whose content is still bytes.
#[derive(Debug)]
pub struct Envelope {
    api_version: String,
    kind: String,
    raw: Vec<u8>,
}

impl Envelope {
    pub fn open(bytes: &[u8]) -> Result<Self, Failure> {
        let unreadable = |problem: &str| {
            Failure::bad_request(format!("the body is no protobuf of this dialect: {problem}"))
        };
        let inner = bytes.strip_prefix(MAGIC).ok_or_else(|| unreadable("its prefix is missing"))?;
        let unknown = Unknown::decode(inner).map_err(|error| unreadable(&error.to_string()))?;
        let TypeMeta { api_version, kind } = unknown.type_meta.unwrap_or_default();
        Ok(Self { api_version, kind, raw: unknown.raw })
    }

    /// The object as the JSON that the same client would have sent.
    pub fn to_value(&self) -> Result<Value, Failure> {
        let mut value = match (self.api_version.as_str(), self.kind.as_str()) {
            ("v1", "Namespace") => self.read::<Namespace>()?.to_value(),
            ("v1", "Event") => self.read::<events::CoreEvent>()?.to_value(),
            ("events.k8s.io/v1", "Event") => self.read::<events::GroupEvent>()?.to_value(),
            ("coordination.k8s.io/v1", "Lease") => self.read::<lease::Lease>()?.to_value(),
            (
                "authorization.k8s.io/v1",
                "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview",
            ) => self.read::<reviews::AccessReview>()?.to_value(),
            ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => {
                self.read::<reviews::RulesReview>()?.to_value()
            }
            ("authentication.k8s.io/v1", "TokenReview") => {
                self.read::<reviews::TokenReview>()?.to_value()
            }
            ("authentication.k8s.io/v1" | "authentication.k8s.io/v1beta1", "SelfSubjectReview") => {
                json!({})
            }
            // Deletion of a built-in kind brings its options along.
            (_, "DeleteOptions") => self.read::<DeleteOptions>()?.to_value(),
            (api_version, kind) => {
                return Err(Failure::unsupported_media(format!(
                    "{api_version} {kind} is not read as protobuf; send it as application/json"
                )));
            }
        };
        value["apiVersion"] = json!(self.api_version);
        value["kind"] = json!(self.kind);
        Ok(value)
    }

    fn read<T: Message + Default>(&self) -> Result<T, Failure> {
        T::decode(self.raw.as_slice()).map_err(|error| {
            Failure::bad_request(format!("the body is not a {}: {error}", self.kind))
        })
    }
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Namespace {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
}

impl Namespace {
    fn to_value(&self) -> Value {
        json!({ "metadata": self.metadata.clone().unwrap_or_default().to_value() })
    }
}

#[derive(Clone, PartialEq, Message)]
struct DeleteOptions {
    #[prost(message, optional, tag = "2")]
    preconditions: Option<Preconditions>,
    #[prost(bool, optional, tag = "3")]
    orphan: Option<bool>,
    #[prost(string, optional, tag = "4")]
    propagation: Option<String>,
    #[prost(string, repeated, tag = "5")]
    dry_run: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Preconditions {
    #[prost(string, optional, tag = "1")]
    uid: Option<String>,
    #[prost(string, optional, tag = "2")]
    resource_version: Option<String>,
}

impl DeleteOptions {
    fn to_value(&self) -> Value {
        let wanted = self.preconditions.clone().unwrap_or_default();
        let mut value = json!({ "dryRun": self.dry_run });
        value["preconditions"] = non_empty([
            ("uid", wanted.uid.unwrap_or_default()),
            ("resourceVersion", wanted.resource_version.unwrap_or_default()),
        ]);
        if let Some(orphan) = self.orphan {
            value["orphanDependents"] = json!(orphan);
        }
        if let Some(propagation) = &self.propagation {
            value["propagationPolicy"] = json!(propagation);
        }
        value
    }
}

fn non_empty<const N: usize>(fields: [(&str, String); N]) -> Value {
    let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(set.map(|(key, value)| (key.to_owned(), Value::String(value))).collect())
}

#[cfg(test)]
#[path = "tests/wire.rs"]
mod tests;

//! Metadata, and points in time.
use super::non_empty;
use jiff::Timestamp;
use jiff::fmt::strtime;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub struct Metadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub generate_name: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "5")]
    pub uid: String,
    #[prost(string, tag = "6")]
    pub resource_version: String,
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    pub owners: Vec<Owner>,
    #[prost(string, repeated, tag = "14")]
    pub finalizers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Owner {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    block_owner_deletion: Option<bool>,
}

impl Metadata {
    pub fn to_value(&self) -> Value {
        let mut metadata = non_empty([
            ("name", self.name.clone()),
            ("generateName", self.generate_name.clone()),
            ("namespace", self.namespace.clone()),
            ("uid", self.uid.clone()),
            ("resourceVersion", self.resource_version.clone()),
        ]);
        for (key, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                metadata[key] = json!(map);
            }
        }
        if !self.owners.is_empty() {
            metadata["ownerReferences"] = self.owners.iter().map(Owner::to_value).collect();
        }
        if !self.finalizers.is_empty() {
            metadata["finalizers"] = json!(self.finalizers);
        }
        metadata
    }
}

impl Owner {
    fn to_value(&self) -> Value {
        let mut owner = non_empty([
            ("apiVersion", self.api_version.clone()),
            ("kind", self.kind.clone()),
            ("name", self.name.clone()),
            ("uid", self.uid.clone()),
        ]);
        let said =
            [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)];
        for (key, value) in said {
            if let Some(value) = value {
                owner[key] = json!(value);
            }
        }
        owner
    }
}

/// A point in time, to the second or to the microsecond.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Time {
    /// To the microsecond, as the JSON of the same time is written. What is no time is nothing, and so is an empty
    /// message, as which clients send that they know none.
    pub fn to_value(self) -> Value {
        let said = Some(self).filter(|time| *time != Self::default());
        let time = said.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
        let text = time.and_then(|time| strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", time).ok());
        text.map_or(Value::Null, Value::String)
    }
}

/// The fields that are there.
pub fn put(value: &mut Value, fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) {
    for (key, found) in fields {
        if let Some(found) = found {
            value[key] = found;
        }
    }
}

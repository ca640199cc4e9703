//! Events in both of their shapes, as far as we keep what they say.
use super::metadata::{Metadata, Time, put};
use super::non_empty;
use prost::Message;
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Message)]
pub struct Reference {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub uid: String,
    #[prost(string, tag = "5")]
    pub api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Source {
    #[prost(string, tag = "1")]
    pub component: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Series {
    #[prost(int32, tag = "1")]
    pub count: i32,
    #[prost(message, optional, tag = "2")]
    pub last: Option<Time>,
}

/// `v1 Event`.
#[derive(Clone, PartialEq, Message)]
pub struct CoreEvent {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    pub involved_object: Option<Reference>,
    #[prost(string, tag = "3")]
    pub reason: String,
    #[prost(string, tag = "4")]
    pub message: String,
    #[prost(message, optional, tag = "5")]
    pub source: Option<Source>,
    #[prost(message, optional, tag = "6")]
    pub first: Option<Time>,
    #[prost(message, optional, tag = "7")]
    pub last: Option<Time>,
    #[prost(int32, tag = "8")]
    pub count: i32,
    #[prost(string, tag = "9")]
    pub kind: String,
    #[prost(message, optional, tag = "10")]
    pub at: Option<Time>,
    #[prost(message, optional, tag = "11")]
    pub series: Option<Series>,
    #[prost(string, tag = "12")]
    pub action: String,
    #[prost(string, tag = "14")]
    pub component: String,
    #[prost(string, tag = "15")]
    pub instance: String,
}

/// `events.k8s.io/v1 Event`.
#[derive(Clone, PartialEq, Message)]
pub struct GroupEvent {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    pub at: Option<Time>,
    #[prost(message, optional, tag = "3")]
    pub series: Option<Series>,
    #[prost(string, tag = "4")]
    pub controller: String,
    #[prost(string, tag = "5")]
    pub instance: String,
    #[prost(string, tag = "6")]
    pub action: String,
    #[prost(string, tag = "7")]
    pub reason: String,
    #[prost(message, optional, tag = "8")]
    pub regarding: Option<Reference>,
    #[prost(string, tag = "10")]
    pub note: String,
    #[prost(string, tag = "11")]
    pub kind: String,
    #[prost(message, optional, tag = "12")]
    pub source: Option<Source>,
    #[prost(message, optional, tag = "13")]
    pub first: Option<Time>,
    #[prost(message, optional, tag = "14")]
    pub last: Option<Time>,
    #[prost(int32, tag = "15")]
    pub count: i32,
}

impl CoreEvent {
    pub fn to_value(&self) -> Value {
        let mut event = non_empty([
            ("reason", self.reason.clone()),
            ("message", self.message.clone()),
            ("type", self.kind.clone()),
            ("action", self.action.clone()),
            ("reportingComponent", self.component.clone()),
            ("reportingInstance", self.instance.clone()),
        ]);
        let fields = [
            ("metadata", Some(self.metadata.clone().unwrap_or_default().to_value())),
            ("involvedObject", self.involved_object.as_ref().map(Reference::to_value)),
            ("source", self.source.as_ref().map(Source::to_value)),
            ("firstTimestamp", self.first.map(Time::to_value)),
            ("lastTimestamp", self.last.map(Time::to_value)),
            ("eventTime", self.at.map(Time::to_value)),
            ("series", self.series.map(Series::to_value)),
            ("count", Some(json!(self.count))),
        ];
        put(&mut event, fields);
        event
    }
}

impl GroupEvent {
    pub fn to_value(&self) -> Value {
        let mut event = non_empty([
            ("reason", self.reason.clone()),
            ("note", self.note.clone()),
            ("type", self.kind.clone()),
            ("action", self.action.clone()),
            ("reportingController", self.controller.clone()),
            ("reportingInstance", self.instance.clone()),
        ]);
        let fields = [
            ("metadata", Some(self.metadata.clone().unwrap_or_default().to_value())),
            ("regarding", self.regarding.as_ref().map(Reference::to_value)),
            ("deprecatedSource", self.source.as_ref().map(Source::to_value)),
            ("deprecatedFirstTimestamp", self.first.map(Time::to_value)),
            ("deprecatedLastTimestamp", self.last.map(Time::to_value)),
            ("eventTime", self.at.map(Time::to_value)),
            ("series", self.series.map(Series::to_value)),
            ("deprecatedCount", Some(json!(self.count))),
        ];
        put(&mut event, fields);
        event
    }
}

impl Reference {
    fn to_value(&self) -> Value {
        non_empty([
            ("kind", self.kind.clone()),
            ("namespace", self.namespace.clone()),
            ("name", self.name.clone()),
            ("uid", self.uid.clone()),
            ("apiVersion", self.api_version.clone()),
        ])
    }
}

impl Source {
    fn to_value(&self) -> Value {
        non_empty([("component", self.component.clone())])
    }
}

impl Series {
    fn to_value(self) -> Value {
        json!({ "count": self.count, "lastObservedTime": self.last.map(Time::to_value) })
    }
}

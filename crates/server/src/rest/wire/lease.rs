//! Leases.
use super::metadata::{Metadata, Time, put};
use prost::Message;
use serde_json::{Value, json};

#[derive(Clone, PartialEq, Message)]
pub struct Lease {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<Spec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Spec {
    #[prost(string, optional, tag = "1")]
    pub holder_identity: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub lease_duration_seconds: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub acquire_time: Option<Time>,
    #[prost(message, optional, tag = "4")]
    pub renew_time: Option<Time>,
    #[prost(int32, optional, tag = "5")]
    pub lease_transitions: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub strategy: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub preferred_holder: Option<String>,
}

impl Lease {
    pub fn to_value(&self) -> Value {
        let given = self.spec.clone().unwrap_or_default();
        let mut spec = json!({});
        let fields = [
            ("holderIdentity", given.holder_identity.map(Value::from)),
            ("leaseDurationSeconds", given.lease_duration_seconds.map(Value::from)),
            ("acquireTime", given.acquire_time.map(Time::to_value)),
            ("renewTime", given.renew_time.map(Time::to_value)),
            ("leaseTransitions", given.lease_transitions.map(Value::from)),
            ("strategy", given.strategy.map(Value::from)),
            ("preferredHolder", given.preferred_holder.map(Value::from)),
        ];
        put(&mut spec, fields);
        json!({ "metadata": self.metadata.clone().unwrap_or_default().to_value(), "spec": spec })
    }
}

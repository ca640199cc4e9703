//! EC2's answers, as far as the driver reads them.
use super::query::{TAG_CLASS, TAG_MACHINE};
use crate::{Error, Machine, MachineState};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(super) struct Items<T> {
    #[serde(default = "Vec::new")]
    item: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { item: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    #[serde(default)]
    reservation_set: Items<Reservation>,
    #[serde(default)]
    next_token: Option<String>,
}

impl Described {
    /// The instances of this page, and where the next begins.
    pub fn into_parts(self) -> (Vec<Instance>, Option<String>) {
        let all = self.reservation_set.item.into_iter().flat_map(|it| it.instances_set.item);
        (all.collect(), self.next_token.filter(|it| !it.is_empty()))
    }
}

/// Also the whole answer to `RunInstances`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reservation {
    #[serde(default)]
    pub instances_set: Items<Instance>,
}

impl Reservation {
    pub fn into_first(self) -> Option<Instance> {
        self.instances_set.item.into_iter().next()
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Instance {
    pub instance_id: String,
    instance_state: State,
    #[serde(default)]
    private_dns_name: String,
    #[serde(default)]
    private_ip_address: Option<String>,
    #[serde(default)]
    ip_address: Option<String>,
    /// RFC 3339, always in the same form, so that the oldest sorts first.
    #[serde(default)]
    pub launch_time: String,
    #[serde(default)]
    tag_set: Option<Tags>,
}

#[derive(Clone, Debug, Deserialize)]
struct State {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Tags {
    #[serde(default)]
    item: Vec<Tag>,
}

#[derive(Clone, Debug, Deserialize)]
struct Tag {
    key: String,
    #[serde(default)]
    value: String,
}

impl Instance {
    fn tag(&self, key: &str) -> &str {
        let tags = self.tag_set.iter().flat_map(|it| &it.item);
        tags.into_iter().find(|it| it.key == key).map_or("", |it| it.value.as_str())
    }

    pub fn class(&self) -> &str {
        self.tag(TAG_CLASS)
    }

    pub fn addresses(&self) -> Vec<String> {
        let both = [&self.private_ip_address, &self.ip_address];
        both.into_iter().flatten().filter(|it| !it.is_empty()).cloned().collect()
    }

    pub fn node_name(&self) -> String {
        let name = &self.private_dns_name;
        if name.is_empty() { self.tag("Name").to_owned() } else { name.clone() }
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.instance_state.name.as_str(), "terminated" | "shutting-down")
    }

    fn state(&self) -> MachineState {
        match self.instance_state.name.as_str() {
            "pending" => MachineState::Pending,
            "running" => MachineState::Running,
            "stopping" | "shutting-down" => MachineState::Stopping,
            "stopped" => MachineState::Stopped,
            _ => MachineState::Unknown,
        }
    }

    pub fn into_machine(self, region: &str) -> Machine {
        Machine {
            id: super::provider_id(region, &self.instance_id),
            name: self.tag("Name").to_owned(),
            addresses: self.addresses(),
            state: self.state(),
            idempotency_key: self.tag(TAG_MACHINE).to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Failure {
    errors: Errors,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Errors {
    error: Fault,
}

/// What went wrong, in the provider's words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Fault {
    pub code: String,
    #[serde(default)]
    pub message: String,
}

pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, Error> {
    quick_xml::de::from_str(body)
        .map_err(|error| Error::internal(format!("cannot read the provider's answer: {error}")))
}

/// The fault in an answer that is no success; `None` if it is none of EC2's.
pub(super) fn parse_fault(body: &str) -> Option<Fault> {
    quick_xml::de::from_str::<Failure>(body).ok().map(|it| it.errors.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_read() {
        let body = r#"<?xml version="1.0"?><DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
            <requestId>r</requestId><reservationSet><item><reservationId>r-1</reservationId><instancesSet>
            <item><instanceId>i-1</instanceId><imageId>ami</imageId><instanceState><code>16</code><name>running</name></instanceState>
            <privateDnsName>ip-10-0-0-1</privateDnsName><privateIpAddress>10.0.0.1</privateIpAddress><ipAddress>54.1.1.1</ipAddress>
            <launchTime>2026-01-01T00:00:00.000Z</launchTime>
            <tagSet><item><key>Name</key><value>m1</value></item><item><key>orrery:machine</key><value>uid</value></item></tagSet></item>
            <item><instanceId>i-2</instanceId><instanceState><name>stopped</name></instanceState></item>
            </instancesSet></item></reservationSet><nextToken>more</nextToken></DescribeInstancesResponse>"#;
        let (instances, next) = parse::<Described>(body).expect("reads").into_parts();
        assert_eq!(next.as_deref(), Some("more"));
        assert_eq!(instances.len(), 2);
        assert_eq!(instances[0].addresses(), ["10.0.0.1", "54.1.1.1"]);
        let machine = instances[0].clone().into_machine("eu-west-1");
        assert_eq!((machine.id.as_str(), machine.name.as_str()), ("aws:///eu-west-1/i-1", "m1"));
        assert_eq!(
            (machine.state, machine.idempotency_key.as_str()),
            (MachineState::Running, "uid")
        );
        assert_eq!(instances[1].clone().into_machine("r").state, MachineState::Stopped);
    }

    #[test]
    fn nothing_and_nonsense_are_told_apart() {
        let none = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";
        assert!(parse::<Described>(none).expect("reads").into_parts().0.is_empty());
        assert!(parse::<Described>("<html>").is_err());
        assert!(parse::<Described>("").is_err());
        let fault = "<Response><Errors><Error><Code>A.B</Code><Message>m</Message></Error></Errors><RequestID>x</RequestID></Response>";
        assert_eq!(parse_fault(fault), Some(Fault { code: "A.B".into(), message: "m".into() }));
        assert_eq!(parse_fault("bad gateway"), None);
    }
}

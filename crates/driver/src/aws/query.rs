//! EC2's query language: flat names and values.
use super::spec::{BlockDevice, NetworkInterface, Spec};
use std::collections::BTreeMap;

/// The version of the EC2 API that is spoken.
const VERSION: &str = "2016-11-15";
/// Instances that exist in any sense that costs money, or soon will.
const LIVE_STATES: [&str; 4] = ["pending", "running", "stopping", "stopped"];
/// EC2 takes at most a thousand per page.
const PAGE_MAX: &str = "1000";

/// The tag that holds the idempotency key: what finds a machine again after a lost answer.
pub(super) const TAG_MACHINE: &str = "orrery:machine";
/// The tag that holds the class: what a list is made by.
pub(super) const TAG_CLASS: &str = "orrery:class";

/// The tag that holds whose machines these are, so that several installations can share an account
/// without taking each other's machines for orphans.
pub(super) const TAG_OWNER: &str = "orrery:owner";

/// A request: parameters in the order they are said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    fn new(action: &str) -> Self {
        let mut query = Self::default();
        query.add("Action", action);
        query.add("Version", VERSION);
        query
    }

    fn add(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    fn add_some(&mut self, name: impl Into<String>, value: Option<&(impl ToString + ?Sized)>) {
        if let Some(value) = value {
            self.add(name, value.to_string());
        }
    }

    /// As the body of a form.
    pub fn encode(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(&self.0);
        form.finish()
    }

    #[cfg(test)]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What a new instance is told beyond its class.
pub(super) struct Start<'a> {
    pub owner: &'a str,
    pub name: &'a str,
    pub key: &'a str,
    pub class: &'a str,
    /// The provider's own protection against doubles.
    pub client_token: &'a str,
    /// Base64.
    pub user_data: &'a str,
}

pub(super) fn run_instances(spec: &Spec, start: &Start<'_>) -> Query {
    let mut query = Query::new("RunInstances");
    query.add("MinCount", 1);
    query.add("MaxCount", 1);
    query.add("ClientToken", start.client_token);
    query.add("ImageId", &spec.ami);
    query.add("InstanceType", &spec.machine_type);
    query.add_some("KeyName", spec.key_name.as_ref());
    if !start.user_data.is_empty() {
        query.add("UserData", start.user_data);
    }
    if let Some(iam) = &spec.iam {
        query.add_some("IamInstanceProfile.Name", iam.name.as_ref());
        query.add_some("IamInstanceProfile.Arn", iam.arn.as_ref());
    }
    for (index, interface) in spec.network_interfaces.iter().enumerate() {
        add_interface(&mut query, index, interface);
    }
    for (index, device) in spec.block_devices.iter().enumerate() {
        add_device(&mut query, index + 1, device);
    }
    let mut tags: BTreeMap<&str, &str> = BTreeMap::new();
    tags.insert("Name", start.name);
    tags.extend(spec.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    tags.extend([(TAG_OWNER, start.owner), (TAG_MACHINE, start.key), (TAG_CLASS, start.class)]);
    for (index, resource) in ["instance", "volume"].into_iter().enumerate() {
        add_tags(&mut query, index + 1, resource, &tags);
    }
    query
}

fn add_interface(query: &mut Query, index: usize, interface: &NetworkInterface) {
    let at = |name: &str| format!("NetworkInterface.{}.{name}", index + 1);
    query.add(at("DeviceIndex"), index);
    query.add_some(at("SubnetId"), interface.subnet_id.as_ref());
    query.add_some(at("AssociatePublicIpAddress"), interface.associate_public_ip_address.as_ref());
    for (number, group) in interface.security_group_ids.iter().enumerate() {
        query.add(at(&format!("SecurityGroupId.{}", number + 1)), group);
    }
}

fn add_device(query: &mut Query, number: usize, device: &BlockDevice) {
    let at = |name: &str| format!("BlockDeviceMapping.{number}.{name}");
    query.add(at("DeviceName"), device.device_name.as_deref().unwrap_or("/dev/sda1"));
    query.add_some(at("Ebs.VolumeSize"), device.ebs.volume_size.as_ref());
    query.add_some(at("Ebs.VolumeType"), device.ebs.volume_type.as_ref());
    query.add_some(at("Ebs.Encrypted"), device.ebs.encrypted.as_ref());
    query.add_some(at("Ebs.Iops"), device.ebs.iops.as_ref());
    // A volume that outlives its machine is a bill that nobody reads.
    query.add(at("Ebs.DeleteOnTermination"), device.ebs.delete_on_termination.unwrap_or(true));
}

fn add_tags(query: &mut Query, number: usize, resource: &str, tags: &BTreeMap<&str, &str>) {
    let at = |name: &str| format!("TagSpecification.{number}.{name}");
    query.add(at("ResourceType"), resource);
    for (index, (key, value)) in tags.iter().enumerate() {
        query.add(at(&format!("Tag.{}.Key", index + 1)), key);
        query.add(at(&format!("Tag.{}.Value", index + 1)), value);
    }
}

/// Live instances of this owner with this tag.
pub(super) fn describe_by_tag(owner: &str, tag: (&str, &str), next: Option<&str>) -> Query {
    let mut query = Query::new("DescribeInstances");
    for (index, (tag, value)) in [(TAG_OWNER, owner), tag].into_iter().enumerate() {
        query.add(format!("Filter.{}.Name", index + 1), format!("tag:{tag}"));
        query.add(format!("Filter.{}.Value.1", index + 1), value);
    }
    query.add("Filter.3.Name", "instance-state-name");
    for (index, state) in LIVE_STATES.iter().enumerate() {
        query.add(format!("Filter.3.Value.{}", index + 1), state);
    }
    query.add("MaxResults", PAGE_MAX);
    query.add_some("NextToken", next);
    query
}

pub(super) fn describe_by_id(id: &str) -> Query {
    let mut query = Query::new("DescribeInstances");
    query.add("InstanceId.1", id);
    query
}

pub(super) fn terminate(ids: &[String]) -> Query {
    let mut query = Query::new("TerminateInstances");
    for (index, id) in ids.iter().enumerate() {
        query.add(format!("InstanceId.{}", index + 1), id);
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::spec::{Ebs, Iam};

    #[test]
    fn a_class_becomes_parameters() {
        let spec = Spec {
            ami: "ami-1".into(),
            machine_type: "t3.small".into(),
            key_name: Some("ops".into()),
            iam: Some(Iam { name: Some("node".into()), arn: None }),
            network_interfaces: vec![NetworkInterface {
                subnet_id: Some("subnet-1".into()),
                security_group_ids: vec!["sg-1".into(), "sg-2".into()],
                associate_public_ip_address: Some(false),
            }],
            block_devices: vec![BlockDevice {
                device_name: None,
                ebs: Ebs { volume_size: Some(50), ..Ebs::default() },
            }],
            tags: BTreeMap::from([("team".into(), "shop & co".into())]),
            ..Spec::default()
        };
        let start = Start {
            owner: "us",
            name: "m1",
            key: "uid",
            class: "c",
            client_token: "t",
            user_data: "aGk=",
        };
        let query = run_instances(&spec, &start);
        for (name, value) in [
            ("Action", "RunInstances"),
            ("MaxCount", "1"),
            ("ClientToken", "t"),
            ("KeyName", "ops"),
            ("UserData", "aGk="),
            ("IamInstanceProfile.Name", "node"),
            ("NetworkInterface.1.DeviceIndex", "0"),
            ("NetworkInterface.1.SecurityGroupId.2", "sg-2"),
            ("NetworkInterface.1.AssociatePublicIpAddress", "false"),
            ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
            ("BlockDeviceMapping.1.Ebs.VolumeSize", "50"),
            ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("TagSpecification.1.Tag.3.Key", TAG_MACHINE),
            ("TagSpecification.1.Tag.4.Key", TAG_OWNER),
            ("TagSpecification.1.Tag.4.Value", "us"),
            ("TagSpecification.2.ResourceType", "volume"),
        ] {
            assert_eq!(query.get(name), Some(value), "{name}");
        }
        assert_eq!(query.get("IamInstanceProfile.Arn"), None);
        assert!(query.encode().contains("Value=shop+%26+co"));
    }
}

//! The fields of `spec` in a class for EC2.
use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Tags that belong to the driver; a class must not set them.
pub(super) const RESERVED_TAGS: &str = "orrery:";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The image.
    pub ami: String,
    pub region: String,
    /// The instance type.
    pub machine_type: String,
    #[serde(default)]
    pub key_name: Option<String>,
    #[serde(default)]
    pub iam: Option<Iam>,
    #[serde(default)]
    pub network_interfaces: Vec<NetworkInterface>,
    #[serde(default)]
    pub block_devices: Vec<BlockDevice>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Read by the library; named here because unknown fields are refused.
    #[serde(default)]
    pub secret_ref: Option<serde_json::Value>,
}

/// The instance profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Iam {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub arn: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkInterface {
    #[serde(rename = "subnetID", default)]
    pub subnet_id: Option<String>,
    #[serde(rename = "securityGroupIDs", default)]
    pub security_group_ids: Vec<String>,
    #[serde(rename = "associatePublicIPAddress", default)]
    pub associate_public_ip_address: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlockDevice {
    #[serde(default)]
    pub device_name: Option<String>,
    pub ebs: Ebs,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ebs {
    /// GiB.
    #[serde(default)]
    pub volume_size: Option<u32>,
    #[serde(default)]
    pub volume_type: Option<String>,
    #[serde(default)]
    pub encrypted: Option<bool>,
    #[serde(default)]
    pub iops: Option<u32>,
    #[serde(default)]
    pub delete_on_termination: Option<bool>,
}

impl Spec {
    /// Refuses what EC2 would refuse later, or what would break ownership.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (field, value) in
            [("ami", &self.ami), ("region", &self.region), ("machineType", &self.machine_type)]
        {
            if value.is_empty() {
                return Err(Error::invalid(format!("spec.{field} of the class is empty")));
            }
        }
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !self.region.bytes().all(is_host) {
            let region = &self.region;
            return Err(Error::invalid(format!(
                "spec.region of the class is no region: {region:?}"
            )));
        }
        if let Some(tag) = self.tags.keys().find(|tag| tag.starts_with(RESERVED_TAGS)) {
            return Err(Error::invalid(format!(
                "spec.tags of the class sets {tag:?}; tags that begin with {RESERVED_TAGS:?} are ours"
            )));
        }
        Ok(())
    }
}

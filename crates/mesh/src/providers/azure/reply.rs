//! What the Resource Manager answers, as far as it matters here.
use serde::Deserialize;
use std::net::IpAddr;

#[derive(Debug, Deserialize)]
pub struct Machine {
    pub properties: MachineProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineProperties {
    pub network_profile: NetworkProfile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkProfile {
    pub network_interfaces: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
pub struct Reference {
    pub id: String,
    #[serde(default)]
    pub properties: Option<Primary>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Primary {
    #[serde(default)]
    pub primary: Option<bool>,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    pub value: Vec<T>,
    #[serde(default)]
    pub next_link: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Interface {
    pub properties: InterfaceProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceProperties {
    #[serde(default)]
    pub primary: Option<bool>,
    #[serde(default)]
    pub ip_configurations: Vec<IpConfiguration>,
}

#[derive(Debug, Deserialize)]
pub struct IpConfiguration {
    pub properties: IpProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpProperties {
    #[serde(default, rename = "privateIPAddress")]
    pub private_ip_address: Option<IpAddr>,
    #[serde(default)]
    pub primary: Option<bool>,
}

impl Machine {
    /// The interfaces by which the machine is reached: the primary one, or the only one.
    pub fn interfaces(&self) -> Vec<&str> {
        let all = &self.properties.network_profile.network_interfaces;
        let is_primary =
            |one: &&Reference| one.properties.and_then(|one| one.primary) == Some(true);
        let primary: Vec<&str> = all.iter().filter(is_primary).map(|one| one.id.as_str()).collect();
        if primary.is_empty() {
            all.iter().take(1).map(|one| one.id.as_str()).collect()
        } else {
            primary
        }
    }
}

impl Interface {
    /// Interfaces that do not say are primary: a machine with one does not have to say.
    pub fn is_primary(&self) -> bool {
        self.properties.primary.unwrap_or(true)
    }

    /// The private address of the primary configuration, where it has one already.
    pub fn address(&self) -> Option<IpAddr> {
        let all = self.properties.ip_configurations.iter().map(|one| &one.properties);
        let primary = all.clone().find(|one| one.primary == Some(true));
        primary.or_else(|| all.clone().next()).and_then(|one| one.private_ip_address)
    }
}

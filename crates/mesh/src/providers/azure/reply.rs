//! What the Resource Manager answers, as far as it matters here.
use serde::Deserialize;
use std::net::IpAddr;

#[derive(Debug, Deserialize)]
pub struct ScaleSet {
    #[serde(default)]
    pub properties: ScaleSetProperties,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleSetProperties {
    pub orchestration_mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Machine {
    #[serde(default)]
    pub id: String,
    pub properties: MachineProperties,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineProperties {
    #[serde(default)]
    pub network_profile: NetworkProfile,
    #[serde(default)]
    pub instance_view: InstanceView,
}

/// The state of a machine, as codes such as `PowerState/running`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct InstanceView {
    pub statuses: Vec<StatusCode>,
}

#[derive(Debug, Deserialize)]
pub struct StatusCode {
    #[serde(default)]
    pub code: String,
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
    /// Absent while it belongs to no machine.
    #[serde(default)]
    pub virtual_machine: Option<SubResource>,
}

#[derive(Debug, Deserialize)]
pub struct SubResource {
    pub id: String,
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

impl ScaleSet {
    /// Older ones do not say; they are uniform.
    pub fn is_flexible(&self) -> bool {
        let mode = self.properties.orchestration_mode.as_deref();
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("Flexible"))
    }
}

impl Machine {
    /// Its id in one spelling, because the Resource Manager uses several.
    pub fn key(&self) -> Option<String> {
        (!self.id.is_empty()).then(|| self.id.to_lowercase())
    }

    /// A machine whose state is not told counts as running.
    pub fn is_on(&self) -> bool {
        let mut states = self.properties.instance_view.statuses.iter().filter_map(|status| {
            let (kind, state) = status.code.split_once('/')?;
            kind.eq_ignore_ascii_case("PowerState").then_some(state)
        });
        states.all(|state| state.eq_ignore_ascii_case("running"))
    }

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
    /// The machine it belongs to, spelt as [`Machine::key`].
    pub fn machine(&self) -> Option<String> {
        self.properties.virtual_machine.as_ref().map(|machine| machine.id.to_lowercase())
    }

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

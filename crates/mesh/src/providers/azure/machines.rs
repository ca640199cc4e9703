//! From the URI of a machine or a scale set to the addresses of what is powered on.
//!
//! A machine is asked for its state and its network interfaces. Of a scale set all machines and all
//! interfaces are listed, whatever its size, and put together: those of a uniform one are listed under
//! it, those of a flexible one are ordinary machines of its resource group.
use super::Manager;
use super::reply::{Interface, Machine, ScaleSet};
use std::collections::BTreeSet;
use std::net::IpAddr;

const COMPUTE_VERSION: &str = "2024-07-01";
const NETWORK_VERSION: &str = "2024-05-01";
/// The network interfaces of a uniform scale set are listed under it, in a version of their own.
const SCALE_SET_NETWORK_VERSION: &str = "2018-10-01";
/// Asks for the state of a machine along with it.
const WITH_STATE: (&str, &str) = ("$expand", "instanceView");

impl Manager {
    /// The addresses of the machine or of all machines of the scale set.
    pub async fn addresses(&self, uri: &str) -> Result<BTreeSet<IpAddr>, String> {
        let uri = plain(uri);
        match resource(uri) {
            Some((_, kind)) if kind == "virtualmachines" => self.of_machine(uri).await,
            Some((group, kind)) if kind == "virtualmachinescalesets" => {
                self.of_scale_set(uri, group).await
            }
            Some(_) | None => Err(format!(
                "{uri:?} is neither a virtual machine nor a scale set: write /subscriptions/<id>/resourceGroups/<name>/providers/Microsoft.Compute/virtualMachines/<name>"
            )),
        }
    }

    /// A machine that is gone or switched off has no address; that is no failure.
    async fn of_machine(&self, uri: &str) -> Result<BTreeSet<IpAddr>, String> {
        let machine = self.get::<Machine>(&self.url(uri, COMPUTE_VERSION, &[WITH_STATE])).await?;
        let mut found = BTreeSet::new();
        for id in machine.iter().filter(|machine| machine.is_on()).flat_map(Machine::interfaces) {
            let url = self.url(id, NETWORK_VERSION, &[]);
            let interface: Option<Interface> = self.get(&url).await?;
            found.extend(interface.and_then(|one| one.address()));
        }
        Ok(found)
    }

    async fn of_scale_set(&self, uri: &str, group: &str) -> Result<BTreeSet<IpAddr>, String> {
        let set = self.get::<ScaleSet>(&self.url(uri, COMPUTE_VERSION, &[])).await?;
        let Some(set) = set else { return Ok(BTreeSet::new()) };
        let (machines, interfaces) = match set.is_flexible() {
            true => {
                let mine = format!("'virtualMachineScaleSet/id' eq '{uri}'");
                let machines = format!("{group}/providers/Microsoft.Compute/virtualMachines");
                let more = [("$filter", mine.as_str()), WITH_STATE];
                let interfaces = format!("{group}/providers/Microsoft.Network/networkInterfaces");
                let interfaces = self.url(&interfaces, NETWORK_VERSION, &[]);
                (self.url(&machines, COMPUTE_VERSION, &more), interfaces)
            }
            false => {
                let machines = format!("{uri}/virtualMachines");
                let interfaces = format!("{uri}/networkInterfaces");
                let interfaces = self.url(&interfaces, SCALE_SET_NETWORK_VERSION, &[]);
                (self.url(&machines, COMPUTE_VERSION, &[WITH_STATE]), interfaces)
            }
        };
        let machines: Vec<Machine> = self.all(machines).await?;
        let interfaces: Vec<Interface> = self.all(interfaces).await?;
        Ok(put_together(&machines, &interfaces))
    }
}

/// The addresses of the primary interfaces of machines that are on.
fn put_together(machines: &[Machine], interfaces: &[Interface]) -> BTreeSet<IpAddr> {
    let on = machines.iter().filter(|machine| machine.is_on());
    let on: BTreeSet<String> = on.filter_map(Machine::key).collect();
    let meant = interfaces.iter().filter(|one| one.machine().is_some_and(|id| on.contains(&id)));
    meant.filter(|one| one.is_primary()).filter_map(Interface::address).collect()
}

/// Without what people put around it.
fn plain(uri: &str) -> &str {
    let uri = uri.trim_end_matches('/');
    let inner = uri.strip_prefix("/resource");
    inner.filter(|inner| inner.starts_with("/subscriptions/")).unwrap_or(uri)
}

/// The resource group and the type of a resource, the type in lower case, because the Resource Manager
/// does not care.
fn resource(uri: &str) -> Option<(&str, String)> {
    let mut parts = uri.rsplitn(5, '/');
    let (_name, kind, provider) = (parts.next()?, parts.next()?, parts.next()?);
    let (_providers, group) = (parts.next()?, parts.next()?);
    let is_compute = provider.eq_ignore_ascii_case("Microsoft.Compute");
    is_compute.then(|| (group, kind.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        let set = "/subscriptions/e3f0/resourceGroups/mesh-rg/providers/Microsoft.Compute/virtualMachineScaleSets/baz";
        let expect = Some((
            "/subscriptions/e3f0/resourceGroups/mesh-rg",
            "virtualmachinescalesets".to_owned(),
        ));
        assert_eq!(resource(set), expect);
        assert_eq!(plain(&format!("/resource{set}/")), set);
        assert_eq!(plain("/resource/other"), "/resource/other");
        assert_eq!(resource("/subscriptions/e3f0/providers/Microsoft.Network/x/y"), None);
        assert_eq!(resource("Microsoft.Compute/virtualMachines/x"), None);
    }
}

//! StorageController resources: the registry's entries as everybody can see them.
mod hub_directory;
pub mod liveness;
pub mod names;

pub use hub_directory::HubDirectory;

use crate::{Address, ControllerId, Entry};
use names::object_name;
use orrery_api::{Object, Violation};
use orrery_proto::storage::v1::{StorageController, StorageControllerSpec};

/// The entry that a resource stands for; nothing if it is none, which validation does not let in.
pub fn entry(name: &str, controller: &StorageController) -> Option<Entry> {
    let spec = controller.spec.as_ref()?;
    let id = ControllerId::parse(id_text(name, spec)).ok()?;
    let address = Address::parse(StorageControllerSpec::address(spec)).ok()?;
    Some(Entry { id, address })
}

/// The id of a controller: its resource's name, unless that cannot be the same.
pub fn id_text<'a>(name: &'a str, spec: &'a StorageControllerSpec) -> &'a str {
    spec.controller_id.as_deref().unwrap_or(name)
}

/// Refuses entries that nobody could be connected to by.
pub fn validate(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(controller) = object.typed::<StorageController>() else { return Vec::new() };
    let Some(spec) = &controller.spec else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(address) = &spec.address
        && let Err(error) = Address::parse(address)
    {
        found.push(Violation::invalid("spec.address", format_args!("{address:?}"), error.reason()));
    }
    if let Some(text) = &spec.controller_id {
        let path = "spec.controllerId";
        match ControllerId::parse(text) {
            Err(error) => {
                found.push(Violation::invalid(path, format_args!("{text:?}"), &error.to_string()));
            }
            Ok(id) if object_name(&id) != object.name() => {
                let why = format!("needs the name {:?} of the resource", object_name(&id));
                found.push(Violation::invalid(path, format_args!("{text:?}"), &why));
            }
            Ok(_) => {}
        }
    }
    found
}

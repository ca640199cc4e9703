//! Gadget v2alpha1: other names, and ports as a map from name to number.
use std::{collections::HashMap, sync::Arc};

use orrery_api::{ConvertError, Convertor, Kind, Object, keep_rest, take_rest};
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::{copy_status, edit_spec, only, only_kind, put, text, texts};
use crate::{v1, v2alpha1};

/// Converts between Gadget v1 and v2alpha1.
pub struct GadgetV2alpha1Convertor;

impl Convertor for GadgetV2alpha1Convertor {
    fn to_hub(&self, hub: &Arc<Kind>, parts: &[Object]) -> Result<Object, ConvertError> {
        let spoke = only(hub, parts)?;
        let mut object = take_rest(hub, spoke)?;
        copy_status(spoke, &mut object)?;
        let Some(spec) = spoke.typed::<v2alpha1::Gadget>()?.spec else { return Ok(object) };
        edit_spec(&mut object, |hub| {
            put(hub, "mode", text(spec.strategy));
            put(hub, "size_bytes", spec.size_bytes.map(Value::I64));
            put(hub, "zones", spec.placement.and_then(|placement| texts(placement.zones)));
            ports_to_hub(hub, spec.ports);
        });
        Ok(object)
    }

    fn from_hub(&self, hub: &Object, parts: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError> {
        let kind = only_kind(hub.kind(), parts)?;
        let mut typed = v2alpha1::Gadget::default();
        if let Some(spec) = hub.typed::<v1::Gadget>()?.spec {
            let placement = v2alpha1::Placement { zones: spec.zones };
            typed.spec = Some(v2alpha1::GadgetSpec {
                strategy: spec.mode,
                placement: (!placement.zones.is_empty()).then_some(placement),
                // Backwards, so that the first of several with one name is shown.
                ports: spec.ports.iter().rev().filter_map(name_and_number).collect(),
                size_bytes: spec.size_bytes,
            });
        }
        let mut spoke = Object::from_typed(kind, &typed)?;
        spoke.copy_metadata_from(hub)?;
        copy_status(hub, &mut spoke)?;
        keep_rest(&mut spoke, rest_of(hub));
        Ok(vec![spoke])
    }
}

/// The list of ports is kept as a whole: a map has neither their order nor their protocols.
fn rest_of(hub: &Object) -> Object {
    let mut rest = hub.clone();
    rest.clear_status();
    if rest.spec().is_some() {
        edit_spec(&mut rest, |spec| {
            for field in ["mode", "zones", "size_bytes"] {
                spec.clear_field_by_name(field);
            }
        });
    }
    rest
}

fn name_and_number(port: &v1::Port) -> Option<(String, i32)> {
    Some((port.name.clone()?, port.number?))
}

/// Ports that are still asked for stay where they were, with their new number; new ones follow in
/// the order of their names.
fn ports_to_hub(spec: &mut DynamicMessage, mut wanted: HashMap<String, i32>) {
    let ports_field = spec.descriptor().get_field_by_name("ports");
    let Some(port_type) = ports_field.and_then(|field| field.kind().as_message().cloned()) else {
        return;
    };
    let Some(Value::List(ports)) = spec.get_field_by_name_mut("ports") else { return };
    let asked_for = wanted.clone();
    ports.retain_mut(|port| match port.as_message_mut() {
        None => false,
        Some(port) => keep_port(port, &asked_for, &mut wanted),
    });
    let mut added: Vec<(String, i32)> = wanted.into_iter().collect();
    added.sort();
    for (name, number) in added {
        let mut port = DynamicMessage::new(port_type.clone());
        port.set_field_by_name("name", Value::String(name));
        port.set_field_by_name("number", Value::I32(number));
        ports.push(Value::Message(port));
    }
}

/// Whether a port of the rest stays. One that the map could not show stays as it is.
fn keep_port(
    port: &mut DynamicMessage,
    asked_for: &HashMap<String, i32>,
    new: &mut HashMap<String, i32>,
) -> bool {
    let Some((name, _)) = port.transcode_to::<v1::Port>().ok().as_ref().and_then(name_and_number)
    else {
        return true;
    };
    match asked_for.get(&name) {
        None => false,
        Some(number) => {
            // The first of several with one name takes the number; validation refuses the others.
            if new.remove(&name).is_some() {
                port.set_field_by_name("number", Value::I32(*number));
            }
            true
        }
    }
}

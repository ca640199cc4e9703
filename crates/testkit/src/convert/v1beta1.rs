//! Gadget v1beta1: sizes in gibibytes, zones as one text, and a note that v1 does not have.
use std::sync::Arc;

use orrery_api::{ConvertError, Convertor, Kind, Object, Violation, keep_rest, take_rest};
use prost_reflect::Value;

use super::{copy_status, edit_spec, only, only_kind, put, text, texts};
use crate::{v1, v1beta1};

const BYTES_PER_GIB: i64 = 1 << 30;
/// Where v1 keeps the note of v1beta1.
const NOTE_ANNOTATION: &str = "testkit.orrery.dev/note";
/// Where v1 keeps how the zones were written, if that was not the plain form.
const ZONES_ANNOTATION: &str = "testkit.orrery.dev/zones";

/// Converts between Gadget v1 and v1beta1.
pub struct GadgetV1beta1Convertor;

impl Convertor for GadgetV1beta1Convertor {
    fn to_hub(&self, hub: &Arc<Kind>, parts: &[Object]) -> Result<Object, ConvertError> {
        let spoke = only(hub, parts)?;
        let mut object = take_rest(hub, spoke)?;
        copy_status(spoke, &mut object)?;
        let Some(spec) = spoke.typed::<v1beta1::Gadget>()?.spec else { return Ok(object) };
        let kept = object.typed::<v1::Gadget>()?.spec.and_then(|spec| spec.size_bytes);
        let size = size_to_hub(spec.size_gib, kept)?;
        let zones = split_zones(spec.zones.as_deref());
        if join_zones(&zones) != spec.zones {
            object.set_annotation(ZONES_ANNOTATION, spec.zones.as_deref().unwrap_or_default());
        }
        if let Some(note) = &spec.note {
            object.set_annotation(NOTE_ANNOTATION, note);
        }
        edit_spec(&mut object, |hub| {
            put(hub, "mode", text(spec.mode));
            put(hub, "size_bytes", size.map(Value::I64));
            put(hub, "zones", texts(zones));
            // Without an address, another source may be in the rest.
            if spec.url.is_some() {
                put(hub, "url", text(spec.url));
            }
        });
        Ok(object)
    }

    fn from_hub(&self, hub: &Object, parts: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError> {
        let kind = only_kind(hub.kind(), parts)?;
        let mut typed = v1beta1::Gadget::default();
        if let Some(spec) = hub.typed::<v1::Gadget>()?.spec {
            let url = match spec.source {
                Some(v1::gadget_spec::Source::Url(url)) => Some(url),
                Some(v1::gadget_spec::Source::Image(_) | v1::gadget_spec::Source::Archive(_))
                | None => None,
            };
            typed.spec = Some(v1beta1::GadgetSpec {
                mode: spec.mode,
                size_gib: spec.size_bytes.map(|size| size.div_euclid(BYTES_PER_GIB)),
                zones: zones_as_written(hub, &spec.zones),
                url,
                note: hub.annotation(NOTE_ANNOTATION).map(str::to_owned),
            });
        }
        let mut spoke = Object::from_typed(kind, &typed)?;
        spoke.copy_metadata_from(hub)?;
        if typed.spec.is_some() {
            spoke.remove_annotation(NOTE_ANNOTATION);
            spoke.remove_annotation(ZONES_ANNOTATION);
        }
        copy_status(hub, &mut spoke)?;
        keep_rest(&mut spoke, rest_of(hub));
        Ok(vec![spoke])
    }
}

/// A size that is not a number of gibibytes is kept exactly.
fn rest_of(hub: &Object) -> Object {
    let mut rest = hub.clone();
    rest.clear_status();
    if rest.spec().is_some() {
        edit_spec(&mut rest, |spec| {
            for field in ["mode", "zones", "url"] {
                spec.clear_field_by_name(field);
            }
            let size = spec.get_field_by_name("size_bytes").and_then(|size| size.as_i64());
            if size.is_some_and(|size| size % BYTES_PER_GIB == 0) {
                spec.clear_field_by_name("size_bytes");
            }
        });
    }
    rest
}

/// The size that was kept, as long as nobody asked for another number of gibibytes.
fn size_to_hub(gib: Option<i64>, kept: Option<i64>) -> Result<Option<i64>, ConvertError> {
    let Some(gib) = gib else { return Ok(None) };
    if let Some(kept) = kept.filter(|kept| kept.div_euclid(BYTES_PER_GIB) == gib) {
        return Ok(Some(kept));
    }
    let too_large = || {
        let why = "must be a number of gibibytes whose bytes can be counted";
        ConvertError::Invalid(vec![Violation::invalid("spec.sizeGib", gib, why)])
    };
    gib.checked_mul(BYTES_PER_GIB).map(Some).ok_or_else(too_large)
}

fn split_zones(zones: Option<&str>) -> Vec<String> {
    let parts = zones.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|zone| !zone.is_empty()).map(str::to_owned).collect()
}

fn join_zones(zones: &[String]) -> Option<String> {
    (!zones.is_empty()).then(|| zones.join(","))
}

fn zones_as_written(hub: &Object, zones: &[String]) -> Option<String> {
    let written = hub.annotation(ZONES_ANNOTATION).map(str::to_owned);
    written.filter(|written| split_zones(Some(written)) == zones).or_else(|| join_zones(zones))
}

//! What the definition of a volume cannot say with options alone.
use crate::quantity;
use orrery_api::{Object, Violation};
use orrery_proto::storage::v1::{Volume, VolumeSpec};

/// Block devices are made of these.
const SECTOR_BYTES: i64 = 512;

pub fn validate(object: &Object, old: Option<&Object>) -> Vec<Violation> {
    let Ok(volume) = object.typed::<Volume>() else { return Vec::new() };
    let Some(spec) = &volume.spec else { return Vec::new() };
    let before = old.and_then(|old| old.typed::<Volume>().ok());
    let before = before.as_ref().and_then(|volume| volume.spec.as_ref());
    let mut found: Vec<Violation> =
        spec.size.iter().filter_map(|text| size(text, before)).collect();
    if let Some(source) = &spec.source
        && source.volume() == object.name()
    {
        let (path, why) = ("spec.source.volume", "must not be the volume itself");
        found.push(Violation::invalid(path, format_args!("{:?}", source.volume()), why));
    }
    found
}

fn size(text: &str, before: Option<&VolumeSpec>) -> Option<Violation> {
    let before = before.and_then(|before| quantity::parse(VolumeSpec::size(before)));
    let why = match (quantity::parse(text), before) {
        (None, _) => "is more than can be counted",
        (Some(0), _) => "must not be zero",
        (Some(bytes), _) if bytes % SECTOR_BYTES != 0 => "must be a multiple of 512 bytes",
        (Some(bytes), Some(before)) if bytes < before => {
            "must not be less than before: a volume cannot shrink"
        }
        (Some(_), _) => return None,
    };
    Some(Violation::invalid("spec.size", format_args!("{text:?}"), why))
}

#[cfg(test)]
mod tests {
    use super::size;
    use orrery_proto::storage::v1::VolumeSpec;

    #[track_caller]
    fn check(text: &str, before: &str, refused: &str) {
        let before = VolumeSpec { size: Some(before.into()), ..VolumeSpec::default() };
        let found = size(text, Some(&before)).map(|found| found.message).unwrap_or_default();
        assert!(found.contains(refused) && found.is_empty() == refused.is_empty(), "{found}");
    }

    #[test]
    fn sizes_that_no_device_can_have_are_refused() {
        check("64Mi", "", "");
        check("64Mi", "64Mi", "");
        check("128Mi", "64Mi", "");
        check("1000", "", "multiple of 512");
        check("1023Ki", "1Mi", "cannot shrink");
        check("0", "", "zero");
        check("0Gi", "", "zero");
        check("999999999999999Ti", "", "counted");
    }
}

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
    found.extend(ceph(spec, before));
    if let Some(source) = &spec.source
        && source.volume.is_none()
        && source.snapshot.is_none()
    {
        found.push(Violation::required("spec.source", "name a volume, a snapshot, or both"));
    }
    if let Some(source) = &spec.source
        && source.volume() == object.name()
    {
        let (path, why) = ("spec.source.volume", "must not be the volume itself");
        found.push(Violation::invalid(path, format_args!("{:?}", source.volume()), why));
    }
    found
}

/// An image of Ceph is what it is; everything else needs a size.
fn ceph(spec: &VolumeSpec, before: Option<&VolumeSpec>) -> Vec<Violation> {
    let Some(ceph) = &spec.ceph else {
        let missing = Violation::required("spec.size", "say how large it is, as in 10Gi");
        return spec.size.is_none().then_some(missing).into_iter().collect();
    };
    let mut found: Vec<Violation> = [
        ("spec.size", spec.size.is_some()),
        ("spec.source", spec.source.is_some()),
        ("spec.snapshots", !spec.snapshots.is_empty()),
        ("spec.media", spec.media() == "memory"),
    ]
    .into_iter()
    .filter(|(_, set)| *set)
    .map(|(path, _)| Violation::forbidden(path, "an image of Ceph is used as it is"))
    .collect();
    if before.is_some_and(|before| before.ceph.is_none()) {
        let why = "a volume that has data of its own cannot become an image of Ceph";
        found.push(Violation::forbidden("spec.ceph", why));
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    for (index, monitor) in ceph.monitors.iter().enumerate() {
        if monitor.is_empty() || monitor.len() > 255 || !monitor.bytes().all(letter) {
            let (path, why) = (format!("spec.ceph.monitors[{index}]"), "must be host or host:port");
            found.push(Violation::invalid(path, format_args!("{monitor:?}"), why));
        }
    }
    found
}

fn size(text: &str, before: Option<&VolumeSpec>) -> Option<Violation> {
    let before = before.and_then(|before| quantity::parse(VolumeSpec::size(before)));
    let why = match (quantity::parse(text), before) {
        (None, _) => {
            "is no size that can be counted: write bytes, or a number with Ki, Mi, Gi or Ti"
        }
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
    use super::{ceph, size};
    use orrery_proto::storage::v1::{CephImage, VolumeSource, VolumeSpec};

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

    #[track_caller]
    fn check_ceph(
        edit: impl FnOnce(&mut VolumeSpec),
        before: Option<&VolumeSpec>,
        expect: &[&str],
    ) {
        let image = CephImage { monitors: vec!["mon-1:6789".into()], ..CephImage::default() };
        let mut spec = VolumeSpec { ceph: Some(image), ..VolumeSpec::default() };
        edit(&mut spec);
        let found: Vec<String> = ceph(&spec, before).into_iter().map(|one| one.path).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn an_image_of_ceph_has_nothing_of_its_own() {
        check_ceph(|_| (), None, &[]);
        check_ceph(|spec| spec.ceph = None, None, &["spec.size"]);
        check_ceph(|spec| spec.size = Some("1Gi".into()), None, &["spec.size"]);
        check_ceph(|spec| spec.media = Some("memory".into()), None, &["spec.media"]);
        check_ceph(|spec| spec.media = Some("file".into()), None, &[]);
        let source = Some(VolumeSource::default());
        check_ceph(|spec| spec.source = source, None, &["spec.source"]);
        let plain = VolumeSpec { size: Some("1Gi".into()), ..VolumeSpec::default() };
        check_ceph(|_| (), Some(&plain), &["spec.ceph"]);
        for wrong in ["", "mon 1", "mon-1,mon-2", "a/b"] {
            let monitors = |spec: &mut VolumeSpec| {
                spec.ceph.as_mut().unwrap().monitors = vec![wrong.into()];
            };
            check_ceph(monitors, None, &["spec.ceph.monitors[0]"]);
        }
    }
}

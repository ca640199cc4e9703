//! One line is one snapshot in one situation.
use super::*;
use orrery_proto::storage::v1::{CephImage, VolumeObserved, VolumeSpec, VolumeStatus};
use proptest::prelude::*;

fn mk_volume(size_bytes: i64) -> Volume {
    let observed = Some(VolumeObserved { size_bytes, ..VolumeObserved::default() });
    Volume {
        metadata: Some(ObjectMeta { uid: "u".into(), ..ObjectMeta::default() }),
        status: Some(VolumeStatus { controller: "a".into(), observed, ..VolumeStatus::default() }),
        ..Volume::default()
    }
}

fn mk_snapshot(size_bytes: i64, controller: &str) -> VolumeSnapshot {
    VolumeSnapshot {
        metadata: Some(ObjectMeta::default()),
        spec: Some(VolumeSnapshotSpec { volume: Some("data".into()), ..<_>::default() }),
        status: Some(VolumeSnapshotStatus {
            size_bytes,
            size: quantity::show(size_bytes),
            controller: controller.into(),
            handle: "k-s".into(),
            ..VolumeSnapshotStatus::default()
        }),
        ..VolumeSnapshot::default()
    }
}

fn deleted(mut snapshot: VolumeSnapshot, policy: &str, forget: bool) -> VolumeSnapshot {
    let metadata = snapshot.metadata.as_mut().unwrap();
    metadata.deletion_timestamp = Some(<_>::default());
    if forget {
        metadata.annotations.insert(FORGET_ANNOTATION.into(), "true".into());
    }
    snapshot.spec.as_mut().unwrap().deletion_policy = Some(policy.into());
    snapshot
}

#[track_caller]
fn check(snapshot: &VolumeSnapshot, volume: Option<&Volume>, away: bool, expect: &str) {
    let found = match step(snapshot, volume, away) {
        Step::Place { controller, volume_uid } => format!("place {controller} {volume_uid}"),
        Step::Take => "take".to_owned(),
        Step::Look => "look".to_owned(),
        Step::Drop => "drop".to_owned(),
        Step::Release(left) => format!("release {}", left.unwrap_or_default()),
        Step::Wait(problem) => problem.reason.to_owned(),
    };
    assert_eq!(found.trim(), expect);
}

#[test]
fn what_becomes_of_a_snapshot() {
    let new = mk_snapshot(0, "");
    check(&new, None, false, "NoVolume");
    check(&new, Some(&mk_volume(0)), false, "VolumeNotReady");
    check(&new, Some(&mk_volume(512)), false, "place a u");
    let mut going = mk_volume(512);
    going.metadata.as_mut().unwrap().deletion_timestamp = Some(<_>::default());
    check(&new, Some(&going), false, "VolumeDeleting");
    let ceph = Some(CephImage::default());
    let ceph = Volume { spec: Some(VolumeSpec { ceph, ..<_>::default() }), ..mk_volume(512) };
    check(&new, Some(&ceph), false, "NotSupported");
    check(&mk_snapshot(0, "a"), Some(&mk_volume(512)), false, "take");
    // Once it was taken, its volume does not matter.
    check(&mk_snapshot(512, "a"), None, false, "look");
    check(&deleted(new, "delete", false), None, false, "release");
    let there = || mk_snapshot(64 << 20, "a");
    check(&deleted(there(), "delete", false), None, false, "drop");
    check(&deleted(there(), "delete", false), None, true, "drop");
    // A host that is there is waited for all the same: it deletes the data.
    check(&deleted(there(), "delete", true), None, false, "drop");
    let left = "release 64Mi stay on a under the name k-s";
    check(&deleted(there(), "delete", true), None, true, left);
    check(&deleted(there(), "keep", false), None, false, left);
}

proptest! {
    /// Nothing is taken twice, nothing goes that was not asked to, and no data is deleted that is to
    /// be kept.
    #[test]
    fn steps_are_safe(
        size in prop_oneof![Just(0_i64), Just(512)],
        placed in any::<bool>(),
        going in any::<bool>(),
        keep in any::<bool>(),
        forget in any::<bool>(),
        away in any::<bool>(),
        volume in prop::option::of(prop_oneof![Just(0_i64), Just(512)]),
    ) {
        let size = if placed { size } else { 0 };
        let mut snapshot = mk_snapshot(size, if placed { "a" } else { "" });
        if going {
            snapshot = deleted(snapshot, if keep { "keep" } else { "delete" }, forget);
        }
        let volume = volume.map(mk_volume);
        let step = step(&snapshot, volume.as_ref(), away);
        let (drops, releases) = (step == Step::Drop, matches!(step, Step::Release(_)));
        let takes = matches!(step, Step::Take | Step::Place { .. });
        prop_assert_eq!(drops || releases, going);
        prop_assert!(!drops || !keep);
        prop_assert!(!takes || size == 0);
        prop_assert!(!releases || !placed || keep || away);
    }
}

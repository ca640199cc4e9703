//! What is asked of a controller.
use super::*;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{OwnSnapshot, VolumeStatus};
use proptest::prelude::*;

fn mk_volume(size: &str, snapshots: &[String], deleting: bool) -> Volume {
    let snapshot = |name: &String| OwnSnapshot { name: Some(name.clone()) };
    Volume {
        metadata: Some(ObjectMeta {
            name: "data".into(),
            project: "shop".into(),
            uid: "u".into(),
            deletion_timestamp: deleting.then(<_>::default),
            ..ObjectMeta::default()
        }),
        spec: Some(VolumeSpec {
            size: Some(size.into()),
            snapshots: snapshots.iter().map(snapshot).collect(),
            ..VolumeSpec::default()
        }),
        ..Volume::default()
    }
}

/// Does to a remote what a controller would.
fn apply(remote: &mut Remote, call: Call) {
    match call {
        Call::Create(request) => {
            assert_eq!(remote.volume, None, "nothing is created twice");
            let size_bytes = request.size_bytes;
            remote.volume = Some(pb::Volume { name: request.name, size_bytes, ..<_>::default() });
        }
        Call::Resize(request) => {
            let volume = remote.volume.as_mut().expect("it is there");
            assert!(volume.size_bytes < request.size_bytes, "a volume never shrinks");
            volume.size_bytes = request.size_bytes;
        }
        Call::Snapshot(request) => {
            let there = remote.snapshots.iter().any(|known| known.name == request.name);
            assert!(!there && remote.volume.is_some());
            remote.snapshots.push(pb::Snapshot {
                name: request.name,
                volume: request.volume,
                labels: request.labels,
                ..<_>::default()
            });
        }
        Call::DropSnapshot(request) => {
            let before = remote.snapshots.len();
            remote.snapshots.retain(|known| known.name != request.name);
            assert_eq!(remote.snapshots.len() + 1, before);
        }
        Call::Delete(_) => {
            assert!(remote.snapshots.iter().all(|known| snapshot_name(known).is_none()));
            remote.volume = None;
        }
    }
}

proptest! {
    /// Whatever is at the controller, carrying the calls out leaves nothing more to do, and takes
    /// nothing that others made.
    #[test]
    fn what_is_asked_for_comes_about(
        size in 1_i64..100,
        there in prop::option::of(1_i64..100),
        wanted in prop::collection::btree_set("[a-d]", 0..4),
        known in prop::collection::btree_set("[a-d]", 0..4),
        others in any::<bool>(),
        deleting in any::<bool>(),
    ) {
        let wanted: Vec<String> = wanted.into_iter().collect();
        let volume = mk_volume(&format!("{size}Ki"), &wanted, deleting);
        let mut remote = Remote::default();
        if let Some(there) = there {
            let name = handle("u");
            remote.volume = Some(pb::Volume { name: name.clone(), size_bytes: there << 10, ..<_>::default() });
            let ours = known.iter().map(|known| pb::Snapshot {
                name: snapshot_handle("u", known),
                volume: name.clone(),
                labels: [(SNAPSHOT_LABEL.to_owned(), known.clone())].into(),
                ..<_>::default()
            });
            remote.snapshots = ours.collect();
            if others && !deleting {
                remote.snapshots.push(pb::Snapshot { name: "by-hand".into(), volume: name, ..<_>::default() });
            }
        }
        for call in calls(&volume, &remote, None).expect("nothing is lost") {
            apply(&mut remote, call);
        }
        prop_assert_eq!(calls(&volume, &remote, None).expect("nothing is lost"), vec![]);
        prop_assert_eq!(remote.volume.is_none(), deleting);
        if let Some(volume) = &remote.volume {
            prop_assert_eq!(volume.size_bytes, there.unwrap_or(size).max(size) << 10);
            let names: Vec<&str> = remote.snapshots.iter().filter_map(snapshot_name).collect();
            prop_assert_eq!(names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), wanted.into_iter().collect());
        }
        if there.is_some() && others && !deleting {
            prop_assert!(remote.snapshots.iter().any(|known| known.name == "by-hand"));
        }
    }
}

#[test]
fn data_that_was_lost_is_not_replaced_by_an_empty_volume() {
    let mut volume = mk_volume("1Mi", &[], false);
    let seen = VolumeObserved { size_bytes: 1 << 20, ..VolumeObserved::default() };
    volume.status = Some(VolumeStatus { observed: Some(seen), ..VolumeStatus::default() });
    let problem = calls(&volume, &Remote::default(), None).unwrap_err();
    assert_eq!(problem.reason, "Lost");
}

#[test]
fn names_at_controllers_fit_their_alphabet() {
    let uid = "0198e3a4-5c2b-7000-8000-000000000001";
    let names = [handle(uid), snapshot_handle(uid, "monday"), snapshot_handle(uid, "tuesday")];
    for name in &names {
        assert!(name.len() <= 63, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
    }
    assert_ne!(names[1], names[2]);
}

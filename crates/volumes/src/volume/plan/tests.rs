//! One line is one volume in one situation.
use super::*;
use orrery_proto::storage::v1::{
    CephImage, SnapshotObserved, VolumeAttachmentStatus, VolumeObserved, VolumeSpec,
};
use proptest::prelude::*;

fn mk_volume(edit: impl FnOnce(&mut Volume)) -> Volume {
    let mut volume = Volume {
        metadata: Some(ObjectMeta {
            name: "data".into(),
            project: "shop".into(),
            uid: "u-1".into(),
            generation: 1,
            finalizers: vec![DATA_FINALIZER.into()],
            ..ObjectMeta::default()
        }),
        spec: Some(VolumeSpec { size: Some("64Mi".into()), ..VolumeSpec::default() }),
        ..Volume::default()
    };
    edit(&mut volume);
    volume
}

fn mk_host(ready: bool, available: Option<i64>) -> Host {
    Host { name: "host".into(), ready, available, ..Host::default() }
}

fn around(hosts: &[(&str, Host)], users: &[(&str, &str)]) -> Around {
    let named = |(id, host): &(&str, Host)| {
        ((*id).to_owned(), Host { name: (*id).to_owned(), ..host.clone() })
    };
    let user = |(node, controller): &(&str, &str)| User {
        node: (*node).to_owned(),
        controller: (*controller).to_owned(),
        workload: "web".to_owned(),
    };
    Around {
        hosts: hosts.iter().map(named).collect(),
        users: users.iter().map(user).collect(),
        ..Around::default()
    }
}

fn made(volume: &mut Volume, controller: &str) {
    volume.status = Some(VolumeStatus {
        controller: controller.into(),
        handle: "v-u-1".into(),
        observed: Some(VolumeObserved {
            size_bytes: 64 << 20,
            generation: 1,
            ..VolumeObserved::default()
        }),
        ..VolumeStatus::default()
    });
}

#[track_caller]
fn check(volume: &Volume, around: &Around, expect: &str) -> Plan {
    let plan = plan(volume, around);
    let status = &plan.status;
    let found = format!("{} {} {}", status.controller, status.state, status.reason);
    assert_eq!(found.trim(), expect, "{}", status.message);
    plan
}

#[test]
fn where_a_volume_goes() {
    let big = mk_host(true, Some(1 << 40));
    let small = mk_host(true, Some(1 << 20));
    let two = [("a", big.clone()), ("b", mk_host(true, Some(2 << 40)))];
    check(&mk_volume(|_| ()), &around(&two, &[]), "Pending WaitingForUser");
    check(&mk_volume(|_| ()), &around(&two, &[("n", "a")]), "a Pending Creating");
    check(&mk_volume(|_| ()), &around(&two, &[("n", "c")]), "Pending NoController");
    let now = mk_volume(|v| v.spec.as_mut().unwrap().placement = Some("now".into()));
    check(&now, &around(&two, &[]), "b Pending Creating");
    let full = check(&now, &around(&[("a", small.clone())], &[]), "Pending OutOfSpace");
    assert!(full.status.message.ends_with("a has the most, 1Mi"), "{}", full.status.message);
    check(&now, &around(&[("a", mk_host(true, None))], &[]), "a Pending Creating");
    check(&now, &around(&[("a", mk_host(false, None))], &[]), "Pending NoController");
    check(&now, &around(&[], &[]), "Pending NoController");
    let named = mk_volume(|v| v.spec.as_mut().unwrap().controller = Some("a".into()));
    check(&named, &around(&[("a", small)], &[("n", "b")]), "a Pending Creating");
    check(&named, &around(&[], &[]), "Pending NoController");
    let kept = mk_volume(|v| made(v, "gone"));
    check(&kept, &around(&two, &[("n", "a")]), "gone Degraded HostAway");
}

#[test]
fn a_copy_is_made_where_its_source_is() {
    let hosts = [("a", mk_host(true, None)), ("b", mk_host(true, None))];
    let mut world = around(&hosts, &[("n", "b")]);
    world.source = Source::On("a".into());
    check(&mk_volume(|_| ()), &world, "a Pending Creating");
    let named = mk_volume(|v| v.spec.as_mut().unwrap().controller = Some("b".into()));
    check(&named, &world, "Pending SourceElsewhere");
    world.source = Source::Missing("there is no volume x".into());
    check(&mk_volume(|_| ()), &world, "Pending SourceMissing");
}

fn mk_ceph(edit: impl FnOnce(&mut Volume)) -> Volume {
    mk_volume(|v| {
        let (pool, image) = (Some("fast".into()), Some("disk".into()));
        let ceph = Some(CephImage { pool, image, ..CephImage::default() });
        v.spec = Some(VolumeSpec { ceph, ..VolumeSpec::default() });
        edit(v);
    })
}

#[test]
fn an_image_of_ceph_goes_where_it_can_be_reached_and_is_left_alone() {
    let host = |backend: &str| Host { backend: backend.into(), ..mk_host(true, None) };
    let hosts = [("a", host("qemu")), ("b", host("loop")), ("c", host("spdk"))];
    check(&mk_ceph(|_| ()), &around(&hosts, &[]), "Pending WaitingForUser");
    check(&mk_ceph(|_| ()), &around(&hosts, &[("n", "a")]), "a Pending Creating");
    let plan = check(&mk_ceph(|_| ()), &around(&hosts, &[("n", "b")]), "Pending NoCeph");
    assert!(plan.status.message.contains("qemu or spdk"), "{}", plan.status.message);
    let now = mk_ceph(|v| v.spec.as_mut().unwrap().placement = Some("now".into()));
    check(&now, &around(&hosts, &[]), "a Pending Creating");
    check(&now, &around(&hosts[1..2], &[]), "Pending NoCeph");
    // It has no place of its own: it is used from wherever it is needed, once nobody holds it.
    let used = mk_ceph(|v| made(v, "a"));
    let plan = check(&used, &around(&hosts, &[("n", "c")]), "c Ready Created");
    assert!(plan.status.message.contains("fast/disk of Ceph, through c"), "{:?}", plan.status);
    let mut world = around(&hosts, &[("n", "c")]);
    world.attachments = vec![mk_attachment("m", false, "Attached")];
    check(&used, &world, "a Ready Created");
    let going = mk_ceph(|v| {
        made(v, "a");
        deleted(v, false);
        v.status.as_mut().unwrap().observed.as_mut().unwrap().gone = true;
    });
    let plan = check(&going, &around(&[], &[]), "a Deleting Deleting");
    assert!(plan.release && plan.status.impact.join("").contains("leaves the image fast/disk"));
}

#[test]
fn how_a_volume_is() {
    let hosts = [("a", mk_host(true, None))];
    let volume = |edit: &dyn Fn(&mut VolumeObserved)| {
        mk_volume(|v| {
            made(v, "a");
            edit(v.status.as_mut().unwrap().observed.as_mut().unwrap());
        })
    };
    check(&volume(&|_| ()), &around(&hosts, &[]), "a Ready Created");
    check(&volume(&|o| o.generation = 0), &around(&hosts, &[]), "a Ready Updating");
    check(&volume(&|o| o.fault = "lost".into()), &around(&hosts, &[]), "a Degraded Faulty");
    let grown = volume(&|o| {
        (o.problem, o.problem_reason) = ("no space".into(), "OutOfSpace".into());
    });
    check(&grown, &around(&hosts, &[]), "a Degraded OutOfSpace");
    let away = [("a", mk_host(false, None))];
    check(&volume(&|_| ()), &around(&away, &[]), "a Degraded HostAway");
}

fn mk_attachment(node: &str, ours: bool, state: &str) -> VolumeAttachment {
    let mut made = attachment(&mk_volume(|_| ()), node);
    if !ours {
        made.metadata.as_mut().unwrap().labels.clear();
    }
    made.status =
        Some(VolumeAttachmentStatus { state: state.into(), ..VolumeAttachmentStatus::default() });
    made
}

#[test]
fn attachments_follow_the_users() {
    let hosts = [("a", mk_host(true, None))];
    let volume = mk_volume(|v| made(v, "a"));
    let plan = check(&volume, &around(&hosts, &[("n1", "a"), ("n1", "a")]), "a Ready Created");
    assert_eq!((plan.attach.len(), node(&plan.attach[0])), (1, "n1"));
    let mut world = around(&hosts, &[]);
    world.attachments =
        vec![mk_attachment("n1", true, "Attached"), mk_attachment("n2", false, "Attached")];
    let plan = check(&volume, &world, "a Ready Created");
    assert_eq!(plan.detach, [meta(&world.attachments[0].metadata).name.clone()]);
    assert_eq!(plan.status.attached_to, ["n1", "n2"]);
    assert!(plan.attach.is_empty());
}

fn deleted(volume: &mut Volume, forget: bool) {
    let metadata = volume.metadata.as_mut().unwrap();
    metadata.deletion_timestamp = Some(<_>::default());
    if forget {
        metadata.annotations.insert(FORGET_ANNOTATION.into(), "true".into());
    }
}

#[test]
fn a_deleted_volume_goes_when_nobody_is_hurt() {
    let (here, away) = ([("a", mk_host(true, None))], [("a", mk_host(false, None))]);
    let volume = |forget| {
        mk_volume(|v| {
            made(v, "a");
            deleted(v, forget);
            v.status.as_mut().unwrap().observed.as_mut().unwrap().snapshots =
                vec![SnapshotObserved { name: "monday".into(), ..SnapshotObserved::default() }];
        })
    };
    let used = check(&volume(false), &around(&here, &[("n", "a")]), "a Deleting InUse");
    assert!(!used.release && used.status.message.contains("web"));
    assert!(!check(&volume(false), &around(&here, &[]), "a Deleting Deleting").release);
    let waits = check(&volume(false), &around(&away, &[]), "a Deleting HostAway");
    assert!(!waits.release && waits.status.message.contains("64Mi and 1 snapshot stay on a"));
    let forgotten = check(&volume(true), &around(&away, &[]), "a Deleting HostAway");
    assert!(forgotten.release && forgotten.left_behind.unwrap().contains("v-u-1"));
    // A host that is there is waited for all the same: it deletes the data.
    assert!(!check(&volume(true), &around(&here, &[]), "a Deleting Deleting").release);
    let gone = mk_volume(|v| {
        made(v, "a");
        deleted(v, false);
        v.status.as_mut().unwrap().observed.as_mut().unwrap().gone = true;
    });
    assert!(check(&gone, &around(&here, &[]), "a Deleting Deleting").release);
    let never = mk_volume(|v| deleted(v, false));
    assert!(check(&never, &around(&here, &[]), "Deleting Deleting").release);
}

#[test]
fn the_impact_of_a_deletion_is_known_before() {
    let volume = mk_volume(|v| made(v, "a"));
    let world = around(&[("a", mk_host(false, None))], &[("n", "a")]);
    let impact = plan(&volume, &world).status.impact.join("; ");
    for part in ["deletes 64Mi of data on a", "workload web on the node n", "not heard of"] {
        assert!(impact.contains(part), "{impact}");
    }
    let mut world = world;
    world.kept = vec!["nightly".into()];
    let impact = plan(&volume, &world).status.impact.join("; ");
    assert!(impact.contains("keeps the volume snapshots nightly"), "{impact}");
    let nothing = plan(&mk_volume(|_| ()), &around(&[], &[])).status.impact.join("; ");
    assert!(nothing.contains("no data is lost"), "{nothing}");
}

prop_compose! {
    fn any_around()(
        hosts in prop::collection::btree_map("[abc]", (any::<bool>(), any::<bool>(), prop::option::of(0_i64..1 << 40)), 0..4),
        users in prop::collection::btree_set(("[nm]", "[abc]"), 0..4),
        attached in prop::collection::btree_set("[nmo]", 0..3),
    ) -> Around {
        Around {
            hosts: hosts.into_iter().map(|(id, (ready, unschedulable, available))| {
                (id.clone(), Host { name: id, ready, unschedulable, available, ..Host::default() })
            }).collect(),
            users: users.into_iter().map(|(node, controller)| User { node, controller, workload: "web".into() }).collect(),
            attachments: attached.iter().map(|node| mk_attachment(node, true, "Attached")).collect(),
            ..Around::default()
        }
    }
}

proptest! {
    /// A place is kept for ever, planning again on what was written changes nothing, no volume is
    /// released while it is used or attached, and nothing is attached twice.
    #[test]
    fn plans_are_stable_and_safe(world in any_around(), now in any::<bool>(), del in any::<bool>(), exists in any::<bool>()) {
        let volume = mk_volume(|v| {
            if now { v.spec.as_mut().unwrap().placement = Some("now".into()); }
            if exists { made(v, "a"); }
            if del { deleted(v, true); }
        });
        let first = plan(&volume, &world);
        let written = Volume { status: Some(first.status.clone()), ..volume.clone() };
        let second = plan(&written, &world);
        prop_assert_eq!(&second.status, &plan(&Volume { status: Some(second.status.clone()), ..volume.clone() }, &world).status);
        if exists { prop_assert_eq!(&first.status.controller, "a"); }
        prop_assert_eq!(&second.status.controller, &first.status.controller);
        if first.release { prop_assert!(world.attachments.is_empty()); }
        if del { prop_assert!(first.attach.is_empty()); }
        let nodes: BTreeSet<&str> = world.attachments.iter().map(node).collect();
        for made in &first.attach {
            prop_assert!(!nodes.contains(node(made)));
        }
        prop_assert!(!first.status.state.is_empty() && !first.status.message.is_empty());
    }
}

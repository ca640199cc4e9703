//! Snapshots, and volumes made from them and from each other.
use super::world::{Csi, SIZE, csi, new_volume};
use crate::world::code;
use orrery_proto::csi::v1::{
    CapacityRange, CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    GetSnapshotRequest, ListSnapshotsRequest, Snapshot, VolumeContentSource,
    volume_content_source::{SnapshotSource, Type, VolumeSource},
};
use std::{collections::HashMap, fs};
use tonic::{
    Code::{Aborted, AlreadyExists, InvalidArgument, NotFound, Ok, OutOfRange},
    Status,
};

const UNKNOWN: &str = "snap-00000000000000000000000000000000";

async fn snapshot(csi: &Csi, name: &str, volume: &str) -> Result<Snapshot, Status> {
    let request = CreateSnapshotRequest {
        name: name.into(),
        source_volume_id: volume.into(),
        ..Default::default()
    };
    Result::Ok(
        csi.controller.clone().create_snapshot(request).await?.into_inner().snapshot.unwrap(),
    )
}

async fn delete(csi: &Csi, id: &str) -> tonic::Code {
    let request = DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
    code(csi.controller.clone().delete_snapshot(request).await)
}

fn from_snapshot(id: &str) -> Option<VolumeContentSource> {
    Some(VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: id.into() })),
    })
}

fn from_volume(id: &str) -> Option<VolumeContentSource> {
    Some(VolumeContentSource { r#type: Some(Type::Volume(VolumeSource { volume_id: id.into() })) })
}

/// proves: VOL-08
#[tokio::test]
async fn snapshots_are_created_once_and_deleted_once() {
    let csi = csi().await;
    let (a, b) = (csi.create("a").await.volume_id, csi.create("b").await.volume_id);
    let first = snapshot(&csi, "s", &a).await.unwrap();
    assert!(first.ready_to_use && first.creation_time.is_some());
    assert_eq!((first.size_bytes, first.source_volume_id.as_str()), (SIZE, a.as_str()));
    assert_eq!(snapshot(&csi, "s", &a).await.unwrap(), first);
    assert_eq!(code(snapshot(&csi, "s", &b).await), AlreadyExists);
    assert_eq!(code(snapshot(&csi, "", &a).await), InvalidArgument);
    assert_eq!(code(snapshot(&csi, "t", "").await), InvalidArgument);
    assert_eq!(code(snapshot(&csi, "t", "vol-00000000000000000000000000000000").await), NotFound);
    snapshot(&csi, &"x".repeat(128), &a).await.unwrap();
    let request = CreateSnapshotRequest {
        name: "t".into(),
        source_volume_id: a.clone(),
        parameters: HashMap::from([("a".into(), "b".into())]),
        ..Default::default()
    };
    assert_eq!(code(csi.controller.clone().create_snapshot(request).await), InvalidArgument);

    let get = async |id: &str| {
        let request = GetSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        csi.controller.clone().get_snapshot(request).await
    };
    assert_eq!(get(&first.snapshot_id).await.unwrap().into_inner().snapshot, Some(first.clone()));
    assert_eq!(code(get("").await), InvalidArgument);
    csi.delete(&a).await.unwrap();
    assert_eq!(code(get(&first.snapshot_id).await), Ok, "a snapshot outlives its volume");
    assert_eq!(delete(&csi, "").await, InvalidArgument);
    assert_eq!(delete(&csi, "reallyfakesnapshotid").await, Ok);
    assert_eq!(delete(&csi, &first.snapshot_id).await, Ok);
    assert_eq!(delete(&csi, &first.snapshot_id).await, Ok);
    assert_eq!(code(get(&first.snapshot_id).await), NotFound);
}

/// proves: VOL-08
#[tokio::test]
async fn snapshots_are_listed_by_id_by_volume_and_in_pages() {
    let csi = csi().await;
    let (a, b) = (csi.create("a").await.volume_id, csi.create("b").await.volume_id);
    let mut ids = Vec::new();
    for (name, volume) in [("1", &a), ("2", &a), ("3", &b), ("4", &b), ("5", &b)] {
        ids.push(snapshot(&csi, name, volume).await.unwrap().snapshot_id);
    }
    let of_b = ids[2..].len();
    let list = async |request: ListSnapshotsRequest| {
        let found = csi.controller.clone().list_snapshots(request).await?.into_inner();
        let id = |entry: orrery_proto::csi::v1::list_snapshots_response::Entry| {
            entry.snapshot.unwrap().snapshot_id
        };
        let ids: Vec<String> = found.entries.into_iter().map(id).collect();
        Result::<_, Status>::Ok((ids, found.next_token))
    };
    let all = ListSnapshotsRequest::default;
    let by_id = ListSnapshotsRequest { snapshot_id: ids[0].clone(), ..all() };
    assert_eq!(list(by_id).await.unwrap().0, ids[..1]);
    let by_volume = ListSnapshotsRequest { source_volume_id: b, ..all() };
    assert_eq!(list(by_volume).await.unwrap().0.len(), of_b);
    for nothing in [
        ListSnapshotsRequest { snapshot_id: UNKNOWN.into(), ..all() },
        ListSnapshotsRequest { snapshot_id: "none-exist-id".into(), ..all() },
        ListSnapshotsRequest { source_volume_id: "none-exist-volume-id".into(), ..all() },
    ] {
        assert_eq!(list(nothing).await.unwrap(), (vec![], String::new()));
    }
    ids.sort();
    let (page, token) = list(ListSnapshotsRequest { max_entries: 2, ..all() }).await.unwrap();
    assert_eq!(page, ids[..2]);
    let rest = ListSnapshotsRequest { starting_token: token, ..all() };
    assert_eq!(list(rest).await.unwrap(), (ids[2..].to_vec(), String::new()));
    let wrong = ListSnapshotsRequest { starting_token: "invalid-token".into(), ..all() };
    assert_eq!(code(list(wrong).await), Aborted);
}

/// proves: VOL-08
#[tokio::test]
async fn a_volume_from_a_snapshot_or_a_volume_has_its_files_and_its_own_size() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    csi.stage(csi.stage_request(&id)).await.unwrap();
    fs::write(csi.staging().join("file"), "before").unwrap();
    let taken = snapshot(&csi, "s", &id).await.unwrap().snapshot_id;
    fs::write(csi.staging().join("file"), "after").unwrap();
    let clone =
        CreateVolumeRequest { volume_content_source: from_volume(&id), ..new_volume("clone") };
    let clone = csi.create_with(clone).await.unwrap();
    assert_eq!(clone.content_source, from_volume(&id));
    fs::write(csi.staging().join("file"), "later").unwrap();
    csi.unstage(&id).await.unwrap();

    let larger = CreateVolumeRequest {
        volume_content_source: from_snapshot(&taken),
        capacity_range: Some(CapacityRange { required_bytes: 4 * SIZE, limit_bytes: 0 }),
        ..new_volume("restored")
    };
    let restored = csi.create_with(larger.clone()).await.unwrap();
    assert_eq!(csi.create_with(larger).await.unwrap(), restored);
    for (volume, expect, size) in [(&clone, "after", SIZE), (&restored, "before", 4 * SIZE)] {
        csi.stage(csi.stage_request(&volume.volume_id)).await.unwrap();
        assert_eq!(fs::read_to_string(csi.staging().join("file")).unwrap(), expect);
        let found = rustix::fs::statvfs(csi.staging()).unwrap();
        let total = i64::try_from(found.f_blocks * found.f_frsize).unwrap();
        assert!(total > size * 3 / 4, "the file system has {total} of {size} bytes");
        csi.unstage(&volume.volume_id).await.unwrap();
    }
}

/// proves: VOL-08
#[tokio::test]
async fn a_source_has_to_exist_and_to_fit() {
    let csi = csi().await;
    let id = csi.create("a").await.volume_id;
    let taken = snapshot(&csi, "s", &id).await.unwrap().snapshot_id;
    let from = |source| CreateVolumeRequest { volume_content_source: source, ..new_volume("b") };
    let small = Some(CapacityRange { required_bytes: 0, limit_bytes: SIZE / 2 });
    for (request, expect) in [
        (from(from_snapshot("non-existing-snapshot-id")), NotFound),
        (from(from_snapshot(UNKNOWN)), NotFound),
        (from(from_volume("fake-volume-id")), NotFound),
        (from(from_snapshot("")), InvalidArgument),
        (from(from_volume("")), InvalidArgument),
        (CreateVolumeRequest { capacity_range: small, ..from(from_snapshot(&taken)) }, OutOfRange),
        (CreateVolumeRequest { capacity_range: None, ..from(from_snapshot(&taken)) }, Ok),
        (from(from_volume(&id)), AlreadyExists),
        (from(None), AlreadyExists),
    ] {
        assert_eq!(code(csi.create_with(request.clone()).await), expect, "{request:?}");
    }
}

/// Copies do not need what they were made from, and neither does asking for them again.
/// proves: VOL-08
#[tokio::test]
async fn what_was_made_is_found_again_after_its_source_is_gone() {
    let csi = csi().await;
    let a = csi.create("a").await.volume_id;
    let taken = snapshot(&csi, "s", &a).await.unwrap();
    let wanted = CreateVolumeRequest {
        volume_content_source: from_snapshot(&taken.snapshot_id),
        ..new_volume("restored")
    };
    let restored = csi.create_with(wanted.clone()).await.unwrap();
    csi.delete(&a).await.unwrap();
    assert_eq!(snapshot(&csi, "s", &a).await.unwrap(), taken);
    assert_eq!(code(snapshot(&csi, "t", &a).await), NotFound);
    assert_eq!(delete(&csi, &taken.snapshot_id).await, Ok);
    assert_eq!(csi.create_with(wanted.clone()).await.unwrap(), restored);
    let another = CreateVolumeRequest { name: "another".into(), ..wanted };
    assert_eq!(code(csi.create_with(another).await), NotFound);
}

//! Snapshots, and volumes that begin as copies.
use super::harness::{NAME_LENGTH_MAX, SIZE, Suite, UNKNOWN, refused, secret};
use orrery_proto::csi::v1::{
    CreateVolumeRequest, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot, Volume,
    VolumeContentSource,
    volume_content_source::{SnapshotSource, Type, VolumeSource},
};
use tonic::{Code, Status};

async fn copy(suite: &Suite, source: Type) -> Result<Volume, Status> {
    let source = VolumeContentSource { r#type: Some(source) };
    let request =
        CreateVolumeRequest { volume_content_source: Some(source), ..suite.request("copy") };
    suite.create_with(request).await
}

fn of_snapshot(id: &str) -> Type {
    Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() })
}

fn of_volume(id: &str) -> Type {
    Type::Volume(VolumeSource { volume_id: id.to_owned() })
}

/// A volume of this name and a snapshot of it.
async fn taken(suite: &Suite, name: &str) -> Snapshot {
    let volume = suite.create(name).await;
    suite.snapshot(&format!("snapshot-of-{name}"), &volume).await.unwrap()
}

pub async fn a_volume_from_a_snapshot_says_so(suite: &Suite) {
    let snapshot = taken(suite, "source").await;
    assert!(snapshot.ready_to_use);
    let volume = copy(suite, of_snapshot(&snapshot.snapshot_id)).await.unwrap();
    let source = volume.content_source.unwrap().r#type;
    assert_eq!(source, Some(of_snapshot(&snapshot.snapshot_id)));
}

pub async fn no_such_snapshot_to_copy(suite: &Suite) {
    refused(copy(suite, of_snapshot("non-existing-snapshot-id")).await, Code::NotFound);
}

pub async fn a_volume_from_a_volume(suite: &Suite) {
    let id = suite.create("source").await;
    let volume = copy(suite, of_volume(&id)).await.unwrap();
    assert_eq!(volume.content_source.unwrap().r#type, Some(of_volume(&id)));
}

pub async fn no_such_volume_to_copy(suite: &Suite) {
    refused(copy(suite, of_volume(UNKNOWN)).await, Code::NotFound);
}

async fn list(suite: &Suite, request: ListSnapshotsRequest) -> ListSnapshotsResponse {
    let request = ListSnapshotsRequest { secrets: secret(), ..request };
    suite.csi.controller.clone().list_snapshots(request).await.unwrap().into_inner()
}

async fn count(suite: &Suite) -> usize {
    list(suite, ListSnapshotsRequest::default()).await.entries.len()
}

/// The one in the list.
#[track_caller]
fn only(list: ListSnapshotsResponse) -> Snapshot {
    let mut entries = list.entries;
    assert_eq!(entries.len(), 1);
    entries.remove(0).snapshot.unwrap()
}

fn complete(snapshot: &Snapshot) -> bool {
    let dated = snapshot.creation_time.is_some_and(|created| created.seconds > 0);
    !snapshot.snapshot_id.is_empty()
        && !snapshot.source_volume_id.is_empty()
        && snapshot.size_bytes == SIZE
        && dated
}

pub async fn all_snapshots_are_complete(suite: &Suite) {
    taken(suite, "listed").await;
    let found = only(list(suite, ListSnapshotsRequest::default()).await);
    assert!(complete(&found), "{found:?}");
}

async fn three(suite: &Suite) -> Snapshot {
    taken(suite, "unrelated-1").await;
    let target = taken(suite, "target").await;
    taken(suite, "unrelated-2").await;
    target
}

pub async fn one_is_found_by_its_id(suite: &Suite) {
    let target = three(suite).await;
    let snapshot_id = target.snapshot_id.clone();
    let request = ListSnapshotsRequest { snapshot_id, ..Default::default() };
    assert_eq!(only(list(suite, request).await), target);
}

pub async fn an_unknown_id_finds_none(suite: &Suite) {
    taken(suite, "other").await;
    let snapshot_id = "none-exist-id".to_owned();
    let request = ListSnapshotsRequest { snapshot_id, ..Default::default() };
    assert_eq!(list(suite, request).await.entries, []);
}

pub async fn one_is_found_by_its_volume(suite: &Suite) {
    let target = three(suite).await;
    let source_volume_id = target.source_volume_id.clone();
    let request = ListSnapshotsRequest { source_volume_id, ..Default::default() };
    assert_eq!(only(list(suite, request).await), target);
}

pub async fn an_unknown_volume_has_none(suite: &Suite) {
    taken(suite, "other").await;
    let source_volume_id = UNKNOWN.to_owned();
    let request = ListSnapshotsRequest { source_volume_id, ..Default::default() };
    assert_eq!(list(suite, request).await.entries, []);
}

pub async fn lists_follow_creation_and_deletion(suite: &Suite) {
    let before = count(suite).await;
    let snapshot = taken(suite, "counted").await;
    assert_eq!(count(suite).await, before + 1);
    assert_eq!(suite.delete_snapshot(&snapshot.snapshot_id).await, Code::Ok);
    assert_eq!(count(suite).await, before);
}

pub async fn pages_have_tokens(suite: &Suite) {
    for number in 0..5 {
        taken(suite, &format!("volume-{number}")).await;
    }
    let first = ListSnapshotsRequest { max_entries: 2, ..Default::default() };
    let first = list(suite, first).await;
    assert_eq!(first.entries.len(), 2);
    let rest = ListSnapshotsRequest { starting_token: first.next_token, ..Default::default() };
    assert_eq!(list(suite, rest).await.entries.len(), 3, "all that are left, at once");
    let strange =
        ListSnapshotsRequest { starting_token: "invalid-token".into(), ..Default::default() };
    refused(suite.csi.controller.clone().list_snapshots(strange).await, Code::Aborted);
}

pub async fn deletion_needs_an_id(suite: &Suite) {
    assert_eq!(suite.delete_snapshot("").await, Code::InvalidArgument);
}

pub async fn deleting_what_never_was_is_fine(suite: &Suite) {
    assert_eq!(suite.delete_snapshot("reallyfakesnapshotid").await, Code::Ok);
}

pub async fn a_snapshot_is_deleted(suite: &Suite) {
    let snapshot = taken(suite, "deleted").await;
    assert_eq!(suite.delete_snapshot(&snapshot.snapshot_id).await, Code::Ok);
}

pub async fn a_snapshot_needs_a_name(suite: &Suite) {
    refused(suite.snapshot("", "testId").await, Code::InvalidArgument);
}

pub async fn a_snapshot_needs_a_volume(suite: &Suite) {
    refused(suite.snapshot("name", "").await, Code::InvalidArgument);
}

pub async fn the_same_again_is_the_same_snapshot(suite: &Suite) {
    let first = taken(suite, "twice").await;
    let again = suite.snapshot("snapshot-of-twice", &first.source_volume_id).await.unwrap();
    assert_eq!(again, first);
}

pub async fn the_name_for_another_volume_is_taken(suite: &Suite) {
    taken(suite, "one").await;
    let other = suite.create("other").await;
    refused(suite.snapshot("snapshot-of-one", &other).await, Code::AlreadyExists);
}

pub async fn the_longest_name_is_fine(suite: &Suite) {
    let (volume, name) = (suite.create("named").await, "s".repeat(NAME_LENGTH_MAX));
    let first = suite.snapshot(&name, &volume).await.unwrap();
    assert_eq!(suite.snapshot(&name, &volume).await.unwrap(), first);
}

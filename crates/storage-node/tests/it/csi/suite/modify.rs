//! Parameters that may change during the life of a volume.
use super::harness::{Suite, refused, secret};
use orrery_proto::csi::v1::{ControllerModifyVolumeRequest, CreateVolumeRequest};
use std::collections::HashMap;
use tonic::{Code, Status};

fn known() -> HashMap<String, String> {
    HashMap::from([("readAheadKb".to_owned(), "128".to_owned())])
}

fn unknown() -> HashMap<String, String> {
    HashMap::from([("XXX_FakeKey".to_owned(), "XXX_FakeValue".to_owned())])
}

async fn modify(suite: &Suite, id: &str, to: HashMap<String, String>) -> Result<(), Status> {
    let request = ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        secrets: secret(),
        mutable_parameters: to,
    };
    suite.csi.controller.clone().controller_modify_volume(request).await.map(|_| ())
}

async fn with_parameters(suite: &Suite) -> String {
    let request = CreateVolumeRequest { mutable_parameters: known(), ..suite.request("mutable") };
    suite.create_with(request).await.unwrap().volume_id
}

pub async fn a_volume_may_have_mutable_parameters(suite: &Suite) {
    with_parameters(suite).await;
}

pub async fn unknown_mutable_parameters_make_no_volume(suite: &Suite) {
    let request = CreateVolumeRequest { mutable_parameters: unknown(), ..suite.request("mutable") };
    refused(suite.create_with(request).await, Code::InvalidArgument);
}

pub async fn modification_needs_an_id(suite: &Suite) {
    refused(modify(suite, "", known()).await, Code::InvalidArgument);
}

pub async fn what_is_not_there_is_not_modified(suite: &Suite) {
    refused(modify(suite, "non-existing-volume-id", known()).await, Code::NotFound);
    refused(modify(suite, "non-existing-volume-id", HashMap::new()).await, Code::NotFound);
}

pub async fn unknown_parameters_are_refused(suite: &Suite) {
    let id = suite.create("plain").await;
    refused(modify(suite, &id, unknown()).await, Code::InvalidArgument);
}

/// A run of the suite may name no parameters at all.
pub async fn a_plain_volume_is_modified(suite: &Suite) {
    let id = suite.create("plain").await;
    modify(suite, &id, HashMap::new()).await.unwrap();
    modify(suite, &id, known()).await.unwrap();
}

pub async fn a_volume_with_parameters_is_modified(suite: &Suite) {
    let id = with_parameters(suite).await;
    modify(suite, &id, known()).await.unwrap();
}

pub async fn a_volume_with_parameters_refuses_unknown_ones(suite: &Suite) {
    let id = with_parameters(suite).await;
    refused(modify(suite, &id, unknown()).await, Code::InvalidArgument);
}

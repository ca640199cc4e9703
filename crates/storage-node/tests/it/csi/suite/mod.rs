//! The driver as the community's suite for CSI drivers uses it: one driver for all checks, one folder
//! to stage in and one to publish below, both made before each check and expected empty after it, and
//! after each check everything is undone in reverse, also what is gone already.
//!
//! Each check of that suite has one here, in our words. They run on volumes with file systems and on
//! block devices, on the driver's own backend and through the registry's proxy.

mod controller;
mod harness;
mod modify;
mod node;
mod publish;
mod snapshots;

use super::world::{block, csi_with, mount, remote};
use harness::Suite;
use orrery_proto::csi::v1::{VolumeCapability, volume_capability::access_mode::Mode};
use orrery_storage_node::csi::CsiConfig;

/// Runs one check between setting up and cleaning up, under its name.
macro_rules! check {
    ($suite:expr, $($check:path),+ $(,)?) => {$(
        eprintln!("checking {}", stringify!($check));
        $suite.set_up();
        $check($suite).await;
        $suite.clean_up().await;
    )+};
}

async fn all(suite: &Suite) {
    identity(suite).await;
    volumes(suite).await;
    publications(suite).await;
    copies(suite).await;
    nodes(suite).await;
}

async fn identity(suite: &Suite) {
    check!(
        suite,
        controller::plugin_capabilities_are_known,
        controller::the_driver_is_ready,
        controller::the_name_is_a_domain_name,
        controller::capabilities_are_known,
        controller::capacity_can_be_asked_for_without_saying_anything,
    );
}

async fn volumes(suite: &Suite) {
    check!(
        suite,
        controller::all_volumes_have_ids,
        controller::a_strange_token_is_aborted,
        controller::lists_follow_creation_and_deletion,
        controller::pages_bear_changes_in_between,
        controller::a_volume_needs_a_name,
        controller::a_volume_needs_a_use,
        controller::a_volume_may_leave_its_size_open,
        controller::a_volume_has_the_size_asked_for,
        controller::the_same_again_is_the_same_volume,
        controller::the_name_with_another_size_is_taken,
        controller::the_longest_name_is_fine,
        controller::deletion_needs_an_id,
        controller::deleting_what_never_was_is_fine,
        controller::a_volume_is_deleted,
        controller::expansion_needs_an_id,
        controller::expansion_needs_a_range,
        controller::a_volume_grows_to_the_byte,
        modify::a_volume_may_have_mutable_parameters,
        modify::unknown_mutable_parameters_make_no_volume,
        modify::modification_needs_an_id,
        modify::what_is_not_there_is_not_modified,
        modify::unknown_parameters_are_refused,
        modify::a_plain_volume_is_modified,
        modify::a_volume_with_parameters_is_modified,
        modify::a_volume_with_parameters_refuses_unknown_ones,
    );
}

async fn publications(suite: &Suite) {
    check!(
        suite,
        publish::validation_needs_an_id,
        publish::validation_needs_a_use,
        publish::a_use_is_confirmed,
        publish::what_is_not_there_is_not_validated,
        publish::publication_needs_an_id,
        publish::publication_needs_a_node,
        publish::publication_needs_a_use,
        publish::a_node_has_a_limit,
        publish::what_is_not_there_is_not_published,
        publish::there_is_no_such_node,
        publish::another_way_is_in_conflict,
        publish::a_life,
        publish::ten_times_the_same,
        publish::the_end_of_a_publication_needs_an_id,
    );
}

async fn copies(suite: &Suite) {
    check!(
        suite,
        snapshots::a_volume_from_a_snapshot_says_so,
        snapshots::no_such_snapshot_to_copy,
        snapshots::a_volume_from_a_volume,
        snapshots::no_such_volume_to_copy,
        snapshots::all_snapshots_are_complete,
        snapshots::one_is_found_by_its_id,
        snapshots::an_unknown_id_finds_none,
        snapshots::one_is_found_by_its_volume,
        snapshots::an_unknown_volume_has_none,
        snapshots::lists_follow_creation_and_deletion,
        snapshots::pages_have_tokens,
        snapshots::deletion_needs_an_id,
        snapshots::deleting_what_never_was_is_fine,
        snapshots::a_snapshot_is_deleted,
        snapshots::a_snapshot_needs_a_name,
        snapshots::a_snapshot_needs_a_volume,
        snapshots::the_same_again_is_the_same_snapshot,
        snapshots::the_name_for_another_volume_is_taken,
        snapshots::the_longest_name_is_fine,
    );
}

async fn nodes(suite: &Suite) {
    check!(
        suite,
        node::capabilities_are_known,
        node::the_node_says_where_it_is,
        node::publication_needs_its_arguments,
        node::the_end_of_a_publication_needs_its_arguments,
        node::the_target_is_made_and_removed,
        node::staging_needs_its_arguments,
        node::staging_needs_a_use,
        node::unstaging_needs_its_arguments,
        node::stats_need_their_arguments,
        node::what_is_not_there_has_no_stats,
        node::a_path_without_the_volume_has_no_stats,
        node::expansion_needs_its_arguments,
        node::what_is_not_there_does_not_grow,
        node::a_grown_volume_is_published_and_expanded,
        node::a_life,
        node::ten_times_the_same,
    );
}

/// Few enough for a check to reach it.
fn limited(mut config: CsiConfig) -> CsiConfig {
    config.volumes_max = 3;
    config
}

async fn here(access: VolumeCapability) {
    all(&Suite::new(csi_with(limited).await, access)).await;
}

async fn elsewhere(access: VolumeCapability) {
    let (csi, _far) = remote(limited).await;
    all(&Suite::new(csi, access)).await;
}

/// proves: VOL-08
#[tokio::test]
async fn the_suite_passes_with_file_systems() {
    here(mount()).await;
}

/// proves: VOL-08
#[tokio::test]
async fn the_suite_passes_with_block_devices() {
    here(block(Mode::SingleNodeWriter)).await;
}

/// proves: VOL-03
/// proves: VOL-08
#[tokio::test]
async fn the_suite_passes_with_file_systems_through_the_proxy() {
    elsewhere(mount()).await;
}

/// proves: VOL-03
/// proves: VOL-08
#[tokio::test]
async fn the_suite_passes_with_block_devices_through_the_proxy() {
    elsewhere(block(Mode::SingleNodeWriter)).await;
}

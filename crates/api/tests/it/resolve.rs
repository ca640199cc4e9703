//! Kinds by any of their names.
use orrery_api::Scheme;

use crate::support::scheme;

#[track_caller]
fn finds(api_version: &str, name: &str, expect: &str) {
    let kind = scheme().resolve(api_version, name).expect("a known name");
    assert_eq!(format!("{} {}", kind.api_version(), kind.kind()), expect);
}

#[track_caller]
fn fails(api_version: &str, name: &str, expect: &str) {
    let error = scheme().resolve(api_version, name).expect_err("a name that leads nowhere");
    assert_eq!(error.to_string(), expect);
}

/// proves: HUB-02
#[test]
fn every_name_leads_to_its_kind() {
    let workload = "apps.orrery.dev/v1 Workload";
    for name in ["Workload", "workload", "WORKLOADS", "wl", "workloads.apps.orrery.dev"] {
        finds("", name, workload);
    }
    finds("", "workloads.apps", workload);
    finds("", "workloads.v1.apps.orrery.dev", workload);
    finds("apps.orrery.dev/v1", "wl", workload);
}

/// proves: HUB-05
#[test]
fn the_hub_version_is_preferred_and_others_are_found() {
    finds("", "gadgets", "testkit.orrery.dev/v1 Gadget");
    finds("testkit.orrery.dev/v1beta1", "gadgets", "testkit.orrery.dev/v1beta1 Gadget");
    finds("", "gadgets.v2alpha1.testkit.orrery.dev", "testkit.orrery.dev/v2alpha1 Gadget");
}

#[test]
fn unknown_names_are_explained() {
    fails("", "worklaod", "no kind is called \"worklaod\", did you mean \"workload\"?");
    fails("", "Gadgit", "no kind is called \"Gadgit\", did you mean \"Gadget\"?");
    fails("", "zzz", "no kind is called \"zzz\"");
    fails("", "workloads.core", "no kind is called \"workloads.core\"");
    fails(
        "apps/v1",
        "Workload",
        "Workload is not in apiVersion \"apps/v1\": it is in \"apps.orrery.dev/v1\"",
    );
}

#[test]
fn stored_forms_are_not_served() {
    fails("", "bundleheads", "no kind is called \"bundleheads\"");
    assert!(scheme().all_kinds().any(|kind| kind.kind() == "BundleHead"));
    assert!(scheme().kinds().all(|kind| kind.kind() != "BundleHead"));
}

/// proves: HUB-02
#[test]
fn the_group_suffix_can_be_changed() {
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    let scheme = builder.group_suffix("example.com").build().expect("a good suffix");
    let kind = scheme.resolve("apps.example.com/v1", "Workload").expect("known");
    assert_eq!(kind.qualified_plural(), "workloads.apps.example.com");
    assert!(scheme.lookup("apps.example.com", "v1", "Workload").is_some());
    assert!(scheme.lookup_plural("apps.example.com", "v1", "workloads").is_some());
    assert!(scheme.lookup("apps.orrery.dev", "v1", "Workload").is_none());
}

#[test]
fn generated_types_find_their_kind() {
    let kind = scheme().kind_of::<orrery_proto::apps::v1::Workload>().expect("registered");
    assert_eq!(kind.kind(), "Workload");
    assert!(scheme().kind_of::<orrery_proto::apps::v1::Process>().is_err());
}

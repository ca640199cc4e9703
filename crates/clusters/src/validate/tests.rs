//! Whole objects, held to their definitions and to our rules.
use orrery_api::{Object, Scheme};
use std::sync::LazyLock;

static SCHEME: LazyLock<Scheme> = LazyLock::new(|| {
    let builder = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    crate::rules(builder).build().expect("our own kinds")
});

fn read(kind: &str, name: &str, spec: &str) -> Result<Object, String> {
    let text = format!(
        r#"{{"apiVersion":"infra.orrery.dev/v1","kind":"{kind}","metadata":{{"name":"{name}","project":"p"}},"spec":{spec}}}"#
    );
    let read = SCHEME.read_json(text.as_bytes(), &<_>::default());
    read.map(|read| read.object).map_err(|error| error.to_string())
}

fn problems(object: &Object, old: Option<&Object>) -> String {
    let found = orrery_api::validate(object, old);
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// `expect` are parts of what is said, in their order; none when nothing is wrong.
#[track_caller]
fn check(kind: &str, name: &str, spec: &str, expect: &[&str]) {
    let said = match read(kind, name, spec) {
        Ok(object) => problems(&object, None),
        Err(error) => error,
    };
    let mut rest = said.as_str();
    for part in expect {
        let Some(at) = rest.find(part) else { panic!("{part:?} is not in {said:?}") };
        rest = &rest[at + part.len()..];
    }
    assert_eq!(said.is_empty(), expect.is_empty(), "{said}");
}

#[test]
fn clusters() {
    let check = |spec: &str, expect: &[&str]| check("Cluster", "edge", spec, expect);
    check(r#"{"process":{},"pools":[{"name":"a"},{"name":"b"}],"blueprint":"base"}"#, &[]);
    check(r#"{"proces":{},"pools":[{"name":"a"}]}"#, &["spec.proces", "did you mean \"process\""]);
    check(r#"{"pools":[{"name":"a"}]}"#, &["process", "qemu", "aws"]);
    check(r#"{"process":{},"qemu":{"disk":"/d"},"pools":[{"name":"a"}]}"#, &["spec"]);
    check(r#"{"process":{}}"#, &["spec.pools: Required value"]);
    check(r#"{"process":{},"pools":[]}"#, &["spec.pools: Required value"]);
    check(
        r#"{"process":{},"pools":[{"name":"a"},{"name":"a"}]}"#,
        &["spec.pools[1]", "Duplicate value", "a"],
    );
    check(r#"{"process":{},"pools":[{"replicas":2}]}"#, &["spec.pools[0].name: Required value"]);
    check(r#"{"process":{},"pools":[{"name":"a","replicas":-1}]}"#, &["spec.pools[0].replicas"]);
    check(r#"{"process":{},"pools":[{"name":"A b"}]}"#, &["spec.pools[0].name"]);
    check(
        r#"{"process":{},"pools":[{"name":"a","maxSurge":"many"}]}"#,
        &["spec.pools[0].maxSurge"],
    );
}

#[test]
fn pools_are_of_their_clusters_provider() {
    let check = |spec: &str, expect: &[&str]| check("Cluster", "edge", spec, expect);
    check(r#"{"process":{},"pools":[{"name":"a","class":"mine"}]}"#, &[]);
    check(
        r#"{"process":{},"pools":[{"name":"a","qemu":{"cpus":2}}]}"#,
        &["spec.pools[0].qemu: Forbidden", "provider \"process\""],
    );
    check(r#"{"qemu":{},"pools":[{"name":"a","qemu":{"disk":"/d"}}]}"#, &[]);
    check(
        r#"{"qemu":{},"pools":[{"name":"a"},{"name":"b"}]}"#,
        &["spec.qemu.disk: Required value", "pool \"a\""],
    );
    check(r#"{"qemu":{"kernel":"/k"},"pools":[{"name":"a"}]}"#, &["spec.qemu.initramfs"]);
    check(r#"{"qemu":{"disk":"relative"},"pools":[{"name":"a"}]}"#, &["spec.qemu.disk"]);
    check(
        r#"{"aws":{"ami":"ami-1"},"pools":[{"name":"a","aws":{"machineType":"t3.small"}}]}"#,
        &["spec.aws.region", "spec.aws.secret"],
    );
    let disk = r#""disk":{"sizeGib":20}"#;
    let aws = format!(r#""ami":"ami-1","region":"r","machineType":"t","secret":"s",{disk}"#);
    check(&format!(r#"{{"aws":{{{aws}}},"pools":[{{"name":"a"}}]}}"#), &[]);
}

#[test]
fn labels_of_pools() {
    let check = |labels: &str, expect: &[&str]| {
        let spec = format!(r#"{{"process":{{}},"pools":[{{"name":"a","labels":{labels}}}]}}"#);
        check("Cluster", "edge", &spec, expect);
    };
    check(r#"{"tier":"web"}"#, &[]);
    check(r#"{"tier":"not a value"}"#, &["spec.pools[0].labels[tier]"]);
    check(
        r#"{"clusters.orrery.dev/pool":"x"}"#,
        &["spec.pools[0].labels[clusters.orrery.dev/pool]", "the cluster sets such labels"],
    );
}

#[test]
fn a_cluster_stays_with_its_provider_and_has_a_short_name() {
    let mk = |spec: &str| read("Cluster", "edge", spec).expect("a cluster");
    let old = mk(r#"{"process":{},"pools":[{"name":"a"}]}"#);
    let same = mk(r#"{"process":{"env":{"A":"1"}},"pools":[{"name":"b"}]}"#);
    assert_eq!(problems(&same, Some(&old)), "");
    let other = mk(r#"{"qemu":{"disk":"/d"},"pools":[{"name":"a"}]}"#);
    let said = problems(&other, Some(&old));
    assert!(said.starts_with("spec.qemu: Forbidden") && said.contains("\"process\""), "{said}");
    let long = "c".repeat(31);
    check("Cluster", &long, r#"{"process":{},"pools":[{"name":"a"}]}"#, &["metadata.name", "30"]);
}

#[test]
fn blueprints() {
    let check = |spec: &str, expect: &[&str]| check("Blueprint", "base", spec, expect);
    check(r#"{"addons":[{"name":"b","version":"1.0"},{"name":"a"}]}"#, &[]);
    check(r#"{"addons":[]}"#, &["spec.addons: Required value"]);
    check(r#"{"addons":[{"version":"1"}]}"#, &["spec.addons[0].name: Required value"]);
    check(
        r#"{"addons":[{"name":"a"},{"name":"b"},{"name":"a","version":"2"}]}"#,
        &["spec.addons[2].name: Duplicate value: \"a\"", "take one of them out"],
    );
    check(r#"{"addons":[{"name":"a","version":"not a version"}]}"#, &["spec.addons[0].version"]);
}

#[test]
fn addons() {
    let check = |spec: &str, expect: &[&str]| check("Addon", "log", spec, expect);
    check(r#"{"version":"1","template":{"process":{"command":"/bin/x"}}}"#, &[]);
    check(r#"{"template":{"process":{"command":"/bin/x"}}}"#, &["spec.version: Required value"]);
    check(r#"{"version":"1"}"#, &["spec.template: Required value"]);
    check(r#"{"version":"1","template":{}}"#, &["process", "podman"]);
    check(
        r#"{"version":"1","template":{"process":{"command":"/bin/x"},"placement":{}}}"#,
        &["spec.template.placement", "unknown field"],
    );
    check(
        r#"{"version":"1","template":{"process":{"command":"/bin/x"},"labels":{"clusters.orrery.dev/x":"y"}}}"#,
        &["spec.template.labels"],
    );
    let long = "a".repeat(33);
    let spec = r#"{"version":"1","template":{"process":{"command":"/bin/x"}}}"#;
    super::tests::check("Addon", &long, spec, &["metadata.name", "32"]);
}

use super::*;
use orrery_proto::infra::v1::{MachineDeploymentStatus, ProcessMachines, cluster_spec};
use proptest::prelude::*;

fn mk_cluster(pools: Vec<NodePool>) -> Cluster {
    let metadata = ObjectMeta {
        name: "edge".to_owned(),
        project: "shop".to_owned(),
        uid: "u1".to_owned(),
        ..ObjectMeta::default()
    };
    let provider = Some(cluster_spec::Provider::Process(ProcessMachines::default()));
    let spec = ClusterSpec { provider, pools, ..ClusterSpec::default() };
    Cluster { metadata: Some(metadata), spec: Some(spec), ..Cluster::default() }
}

fn mk_pool(name: &str, replicas: i32) -> NodePool {
    NodePool { name: Some(name.to_owned()), replicas: Some(replicas), ..NodePool::default() }
}

fn template(pool: &Pool) -> MachineTemplate {
    pool.deployment.spec.clone().and_then(|spec| spec.template).unwrap_or_default()
}

#[test]
fn a_pool_becomes_a_class_and_a_deployment_of_it() {
    let labels = [("tier".to_owned(), "web".to_owned())].into();
    let pool = NodePool { labels, max_surge: Some("2".to_owned()), ..mk_pool("workers", 3) };
    let [made] = &expand(&mk_cluster(vec![pool]))[..] else { panic!("one pool") };
    let spec = made.deployment.spec.clone().unwrap_or_default();
    assert_eq!((spec.replicas(), spec.max_surge()), (3, "2"));
    assert_eq!(spec.max_unavailable, None, "what the pool does not say is not the cluster's");
    assert_eq!(template(made).class(), "edge-workers");
    let class = made.class.as_ref().expect("a class of its own");
    for metadata in [&class.metadata, &made.deployment.metadata] {
        let metadata = meta(metadata);
        assert_eq!((&*metadata.project, &*metadata.name), ("shop", "edge-workers"));
        let owner = &metadata.owner_references[0];
        assert_eq!((&*owner.kind, &*owner.uid, owner.controller()), ("Cluster", "u1", true));
    }
    let labels = template(made).labels;
    let of = |key: &str| labels.get(key).map(String::as_str);
    assert_eq!(of("tier"), Some("web"));
    assert_eq!(of(names::CLUSTER_UID_LABEL), Some("u1"), "its nodes are chosen by it");
    assert_eq!((of(names::CLUSTER_LABEL), of(POOL_LABEL)), (Some("edge"), Some("workers")));
}

#[test]
fn a_pool_of_somebody_elses_class_makes_none() {
    let machines = Some(node_pool::Machines::Class("mine".to_owned()));
    let [made] = &expand(&mk_cluster(vec![NodePool { machines, ..mk_pool("workers", 1) }]))[..]
    else {
        panic!("one pool")
    };
    assert_eq!((made.class.clone(), template(made).class()), (None, "mine"));
}

/// Of a deployment: its generation, the one that it speaks of, its class's revision, and state and counts.
fn mk_deployment(
    generations: (i64, i64),
    revision: i64,
    state: &str,
    counts: (i32, i32),
) -> MachineDeployment {
    let status = MachineDeploymentStatus {
        state: state.to_owned(),
        observed_generation: generations.1,
        revision,
        updated: counts.0,
        available: counts.1,
        ..MachineDeploymentStatus::default()
    };
    let metadata = ObjectMeta { generation: generations.0, ..ObjectMeta::default() };
    MachineDeployment {
        metadata: Some(metadata),
        status: Some(status),
        ..MachineDeployment::default()
    }
}

#[track_caller]
fn check(deployment: &MachineDeployment, class: Option<i64>, expect: (&str, i32)) {
    let pool = expand(&mk_cluster(vec![mk_pool("workers", 3)])).remove(0);
    let said = judge(&pool, deployment, class);
    assert_eq!((&*said.state, said.ready), expect, "{said:?}");
    assert_eq!(said.message.is_empty(), said.state == "Ready", "{said:?}");
}

#[test]
fn a_pool_is_ready_when_its_deployment_speaks_of_what_is_asked_for() {
    check(&mk_deployment((2, 2), 5, "Complete", (3, 3)), Some(5), ("Ready", 3));
    check(&mk_deployment((2, 2), 5, "Complete", (3, 3)), None, ("Ready", 3));
    check(&mk_deployment((3, 2), 5, "Complete", (3, 3)), Some(5), ("Progressing", 0));
    check(&mk_deployment((2, 2), 5, "Complete", (3, 3)), Some(6), ("Progressing", 0));
    check(&mk_deployment((2, 2), 5, "Progressing", (1, 3)), Some(5), ("Progressing", 1));
    check(&mk_deployment((2, 2), 5, "Complete", (2, 2)), Some(5), ("Progressing", 2));
    check(&mk_deployment((2, 2), 5, "Frozen", (2, 2)), Some(5), ("Progressing", 2));
    let mut pinned = mk_deployment((2, 2), 4, "Complete", (3, 3));
    let template = MachineTemplate { class_revision: Some(4), ..MachineTemplate::default() };
    pinned.spec = Some(MachineDeploymentSpec { template: Some(template), ..<_>::default() });
    check(&pinned, Some(5), ("Ready", 3));
}

#[test]
fn a_missing_class_is_said() {
    let mut deployment = mk_deployment((1, 1), 0, "Failing", (0, 0));
    let condition = orrery_proto::meta::v1::Condition {
        r#type: "ClassFound".to_owned(),
        message: "there is no machine class".to_owned(),
        ..<_>::default()
    };
    deployment.status.as_mut().expect("just made").conditions = vec![condition];
    check(&deployment, None, ("Failing", 0));
}

proptest! {
    /// Whatever pools there are, each becomes one deployment of its own that carries the cluster's labels.
    #[test]
    fn every_pool_has_one_deployment(names in prop::collection::btree_set("[a-z][a-z0-9]{0,8}", 1..6), replicas in 0i32..10) {
        let pools = names.iter().map(|name| mk_pool(name, replicas)).collect();
        let cluster = mk_cluster(pools);
        let made = expand(&cluster);
        prop_assert_eq!(expand(&cluster), made.clone(), "the same question has the same answer");
        let deployments: std::collections::BTreeSet<String> =
            made.iter().map(|pool| meta(&pool.deployment.metadata).name.clone()).collect();
        prop_assert_eq!(deployments.len(), names.len());
        for pool in &made {
            let labels = template(pool).labels;
            prop_assert_eq!(labels.get(names::CLUSTER_UID_LABEL).map(String::as_str), Some("u1"));
            prop_assert_eq!(pool.wanted, replicas);
        }
    }
}

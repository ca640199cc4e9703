//! Two servers on one etcd, one of which dies.
use crate::harness::{Home, until};
use orrery_testkit::etcd::Cluster;

/// The server that leads is killed; the other takes over, and nothing is done twice.
#[test]
fn another_server_takes_over_when_the_leader_is_killed() {
    let etcd = Cluster::start(1);
    let endpoints = etcd.options("orrery/").endpoints.join(",");
    let store = ["--store".to_owned(), format!("etcd://{endpoints}")];
    let home = Home::new();
    let (mut leader, first) = home.server("one", &store);
    let workload = |name: &str| {
        let hello =
            std::fs::read_to_string(crate::harness::repository().join("examples/hello.yaml"));
        let text =
            hello.unwrap().replace("name: hello\n  project", &format!("name: {name}\n  project"));
        home.write(&format!("{name}.yaml"), text).to_str().unwrap().to_owned()
    };
    let copies = |server: &str| {
        let arguments = ["get", "workloadinstances", "-A", "-o", "name", "--server", server];
        home.orrery(&arguments).good().lines().count()
    };
    home.orrery(&["apply", "-f", &workload("before"), "--server", &first]).good();
    until("the first server leads", || (copies(&first) == 1).then_some(()));
    let (_follower, second) = home.server("two", &store);
    assert_eq!(copies(&second), 1, "both see the same");
    leader.kill();
    home.orrery(&["apply", "-f", &workload("after"), "--server", &second]).good();
    until("the second server leads", || (copies(&second) == 2).then_some(()));
}

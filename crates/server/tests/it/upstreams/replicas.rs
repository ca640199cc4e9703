//! Several servers of one site on one etcd: what they keep of the centre is shared, and never older than a write.
use super::{CLASSES, asked, at, class, mk_operations, note, note_of};
use crate::encrypted::validity;
use crate::support::{PATIENCE, World};
use orrery_hub::ObjectName;
use orrery_pki::{Authority, IssueRequest, Role, TlsFiles};
use orrery_proto::hub::v1::replicas_client::ReplicasClient;
use orrery_proto::hub::v1::{GetRequest, ResourceName};
use orrery_testkit::etcd::Cluster;
use orrery_testkit::world::{World as Server, WorldOptions};
use std::net::Ipv4Addr;
use std::time::Duration;

async fn server(etcd: &Cluster, centre: &World) -> Server {
    server_with(etcd, centre, TlsFiles::default()).await
}

async fn server_with(etcd: &Cluster, centre: &World, tls: TlsFiles) -> Server {
    let operations = mk_operations(&centre.url(), &["MachineClass"]);
    let etcd = Some(etcd.options("orrery/"));
    Server::start_with(WorldOptions { etcd, operations, tls, ..WorldOptions::default() }).await
}

/// A class, as a server reads it.
async fn read(server: &Server, name: &str) -> String {
    let kind = server.hub.scheme().resolve("", "MachineClass").unwrap();
    let accessor = server.hub.accessor(&kind).unwrap();
    let found = accessor.get(ObjectName::new("default", name).into()).await.unwrap();
    found.meta().annotations.get("note").cloned().unwrap_or_default()
}

async fn write(server: &Server, name: &str, note: &str) {
    let kind = server.hub.scheme().resolve("", "MachineClass").unwrap();
    let accessor = server.hub.accessor(&kind).unwrap();
    let mut object = accessor.get(ObjectName::new("default", name).into()).await.unwrap();
    object.update_meta(|meta| {
        meta.resource_version.clear();
        meta.annotations.insert("note".into(), note.into());
    });
    accessor.apply(object, <_>::default()).await.unwrap();
}

/// Entries that the groups of these servers hold for gets.
fn entries(servers: &[&Server]) -> Vec<usize> {
    let of = |server: &&Server| {
        let storage = server.hub.storage("machineclasses").unwrap();
        storage.cache().unwrap().figures()[0].1.entries
    };
    servers.iter().map(of).collect()
}

/// Waits until each answer is kept once, by one of several: then the servers know each other, and listen.
async fn until_shared(centre: &World, servers: &[&Server], names: &[String]) {
    let shared = async {
        loop {
            for server in servers {
                for name in names {
                    read(server, name).await;
                }
            }
            let before = asked(centre, "get").await;
            for server in servers {
                for name in names {
                    read(server, name).await;
                }
            }
            let held = entries(servers);
            let spread = held.iter().all(|count| 0 < *count);
            if before == asked(centre, "get").await
                && spread
                && held.iter().sum::<usize>() == names.len()
            {
                return;
            }
            servers.iter().for_each(|server| {
                server.hub.storage("machineclasses").unwrap().forget_all();
            });
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let shared = tokio::time::timeout(PATIENCE, shared).await;
    assert!(shared.is_ok(), "they hold {:?} of {}", entries(servers), names.len());
}

async fn declared(centre: &World) -> Vec<String> {
    // So many that none of two servers wins them all, once in some millions of runs.
    let names: Vec<String> = (0..24).map(|number| format!("class-{number}")).collect();
    for name in &names {
        centre.post(CLASSES, &class(name, "first")).await.expect(201);
    }
    names
}

/// proves: HUB-14
#[tokio::test]
async fn servers_of_a_site_share_what_they_keep() {
    let (etcd, centre) = (Cluster::start(1), World::start().await);
    let names = declared(&centre).await;
    let (one, two) = (server(&etcd, &centre).await, server(&etcd, &centre).await);
    until_shared(&centre, &[&one, &two], &names).await;
    let before = asked(&centre, "get").await;
    for _ in 0..5 {
        for name in &names {
            assert_eq!(
                (read(&one, name).await, read(&two, name).await),
                ("first".into(), "first".into())
            );
        }
    }
    assert_eq!(asked(&centre, "get").await, before, "240 reads, and the centre heard of none");
    one.stop().await;
    two.stop().await;
}

/// proves: HUB-14
#[tokio::test]
async fn a_write_through_one_server_is_read_through_the_others_at_once() {
    let (etcd, centre) = (Cluster::start(1), World::start().await);
    let names = declared(&centre).await;
    let (one, two) = (server(&etcd, &centre).await, server(&etcd, &centre).await);
    until_shared(&centre, &[&one, &two], &names).await;
    for round in 0..5 {
        for (number, name) in names.iter().enumerate() {
            let (from, to) = if number % 2 == 0 { (&one, &two) } else { (&two, &one) };
            let text = format!("round {round}");
            write(from, name, &text).await;
            assert_eq!(read(to, name).await, text, "{name}");
            assert_eq!(read(from, name).await, text, "{name}");
        }
    }
    one.stop().await;
    two.stop().await;
}

/// What one kept who goes is not missed, and one who comes gets its share; neither is old.
///
/// proves: HUB-14
#[tokio::test]
async fn servers_that_come_and_go_leave_nothing_old_behind() {
    let (etcd, centre) = (Cluster::start(1), World::start().await);
    let names = declared(&centre).await;
    let (one, two) = (server(&etcd, &centre).await, server(&etcd, &centre).await);
    until_shared(&centre, &[&one, &two], &names).await;
    two.stop().await;
    for name in &names {
        write(&one, name, "alone").await;
        assert_eq!(read(&one, name).await, "alone");
    }
    let three = server(&etcd, &centre).await;
    for name in &names {
        assert_eq!(read(&three, name).await, "alone");
    }
    until_shared(&centre, &[&one, &three], &names).await;
    for name in &names {
        write(&three, name, "again").await;
        assert_eq!(read(&one, name).await, "again");
    }
    note(&centre, &names[0], "from the centre").await;
    let heard = async {
        while read(&one, &names[0]).await != "from the centre" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("whoever keeps it hears of it");
    assert_eq!(note_of(&centre.get(&at(&names[0])).await.expect(200)), "from the centre");
    one.stop().await;
    three.stop().await;
}

/// Servers know each other by their certificates, and answer nobody else past who may do what.
///
/// proves: HUB-14
#[tokio::test]
async fn servers_with_certificates_share_with_servers_only() {
    let (etcd, centre) = (Cluster::start(1), World::start().await);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name).ip(Ipv4Addr::LOCALHOST);
        authority.issue(&request, validity()).unwrap()
    };
    let files = |name: &str| issue(Role::Server, name).write_to(&folder.path().join(name)).unwrap();
    let names = declared(&centre).await;
    let one = server_with(&etcd, &centre, files("one")).await;
    let two = server_with(&etcd, &centre, files("two")).await;
    until_shared(&centre, &[&one, &two], &names).await;

    let ask = async |role| {
        let material = issue(role, "somebody").material().unwrap();
        let channel = one.endpoint(Some(material)).connect().await.unwrap();
        let (kind, project) = ("MachineClass".to_owned(), "default".to_owned());
        let name = ResourceName { kind, project, name: names[0].clone(), ..<_>::default() };
        let request = GetRequest { name: Some(name), ..GetRequest::default() };
        ReplicasClient::new(channel).get(request).await
    };
    assert!(ask(Role::Server).await.is_ok());
    for role in [Role::User, Role::Agent] {
        let refused = ask(role).await.expect_err("no server");
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{role:?}: {refused}");
    }
    one.stop().await;
    two.stop().await;
}

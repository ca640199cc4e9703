//! `oim.v0.Registry` over the wire.
use crate::world::{Registry, register, registry};
use orrery_proto::oim::v0::{GetControllerRequest, registry_client::RegistryClient};
use orrery_volumes::ServeConfig;
use tonic::{Code, transport::Channel};

async fn world() -> (Registry, RegistryClient<Channel>) {
    let registry = registry(ServeConfig::default()).await;
    let client = RegistryClient::new(registry.channel().await);
    (registry, client)
}

async fn entries(client: &mut RegistryClient<Channel>) -> String {
    let reply = client.get_controllers(GetControllerRequest {}).await.unwrap().into_inner();
    let entry = |entry: orrery_proto::oim::v0::DbEntry| {
        format!("{}={}", entry.controller_id, entry.address)
    };
    reply.entries.into_iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// proves: VOL-02
#[tokio::test]
async fn controllers_are_added_overwritten_listed_and_removed() {
    let (_registry, mut client) = world().await;
    assert_eq!(entries(&mut client).await, "");
    register(&mut client, "host-2", "dns:///host-2:8999").await.unwrap();
    register(&mut client, "host-1", "unix:///run/oim.sock").await.unwrap();
    register(&mut client, "host-2", "ipv4:10.0.0.2:1").await.unwrap();
    assert_eq!(entries(&mut client).await, "host-1=unix:///run/oim.sock host-2=ipv4:10.0.0.2:1");
    register(&mut client, "host-1", "").await.unwrap();
    register(&mut client, "never-there", "").await.unwrap();
    assert_eq!(entries(&mut client).await, "host-2=ipv4:10.0.0.2:1");
}

/// proves: VOL-02
#[tokio::test]
async fn bad_ids_and_addresses_are_invalid_arguments_and_change_nothing() {
    let (_registry, mut client) = world().await;
    for (id, address) in [
        ("", "host:1"),
        ("a/b", "host:1"),
        ("a", "host"),
        ("a", "http://host:1"),
        ("a", "host:0"),
        ("", ""),
    ] {
        let status = register(&mut client, id, address).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{id:?} {address:?}: {status}");
        assert!(status.message().contains("invalid"), "{status}");
    }
    assert_eq!(entries(&mut client).await, "");
}

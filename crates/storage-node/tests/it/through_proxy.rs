//! A controller that registers itself and is reached through the registry.
use crate::world::{Disk, MIB, controller};
use orrery_storage_node::{
    Pool, Request,
    service::{Endpoint, Registration, RemotePool, keep_registered},
    volume::{Labels, Media, Size, VolumeName},
};
use orrery_volumes::{ControllerDirectory, ControllerId, MemoryDirectory, ServeConfig, serve};
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// proves: VOL-02
/// proves: VOL-03
#[tokio::test]
async fn a_controller_registers_itself_again_and_again_and_serves_through_the_proxy() {
    let disk = Disk::new();
    let controller = controller(&disk, None).await;
    let directory = Arc::new(MemoryDirectory::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Endpoint::new(&listener.local_addr().unwrap().to_string(), None);
    let stop = CancellationToken::new();
    let _stopped = stop.clone().drop_guard();
    tokio::spawn(serve(listener, ServeConfig::default(), directory.clone(), stop.clone()));
    let id = ControllerId::parse("host-1").unwrap();
    let registration = Registration {
        registry: registry.clone(),
        controller_id: id.to_string(),
        address: controller.address.clone(),
        refresh_interval: Duration::from_millis(50),
        volumes: None,
    };
    tokio::spawn(keep_registered(registration, stop));

    for _ in 0..2 {
        let listed = async {
            while directory.get(&id).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), listed).await.expect("it registers");
        // A registry that lost the entry learns it again.
        directory.remove(&id).await.unwrap();
    }
    let entry = async {
        loop {
            if let Some(entry) = directory.get(&id).await.unwrap() {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let entry = tokio::time::timeout(Duration::from_secs(20), entry).await.expect("again");
    assert_eq!(entry.address.as_str(), controller.address);
    whole_life(&RemotePool::new(&registry, "host-1").unwrap()).await;
    let elsewhere = RemotePool::new(&registry, "host-2").unwrap();
    assert_eq!(elsewhere.list().await.unwrap_err().code(), Code::Unavailable);
}

async fn whole_life(pool: &dyn Pool) {
    let name = VolumeName::parse("vol-1").unwrap();
    let snap = VolumeName::parse("snap-1").unwrap();
    let request = Request {
        name: name.clone(),
        size: Size::from_bytes(MIB).unwrap(),
        media: Media::File,
        source: None,
        labels: Labels::from([("a".to_owned(), "b".to_owned())]),
    };
    assert_eq!(pool.get(&name).await.unwrap_err().code(), Code::NotFound);
    let created = pool.create(request.clone()).await.unwrap();
    assert_eq!(created.labels, request.labels);
    let mapping = pool.map(&name).await.unwrap();
    assert_eq!(pool.get(&name).await.unwrap().mapping, Some(mapping));
    assert_eq!(pool.delete(&name).await.unwrap_err().code(), Code::FailedPrecondition);
    let larger = Size::from_bytes(2 * MIB).unwrap();
    assert_eq!(pool.resize(&name, larger).await.unwrap().size, larger);
    let snapshot = pool.create_snapshot(&snap, &name, Labels::new()).await.unwrap();
    assert_eq!(pool.list_snapshots().await.unwrap(), [snapshot]);
    pool.delete_snapshot(&snap).await.unwrap();
    pool.set_labels(&name, &request.labels, Labels::new()).await.unwrap();
    assert!(pool.capacity(Media::File).await.unwrap().available_bytes > 0);
    pool.unmap(&name).await.unwrap();
    pool.delete(&name).await.unwrap();
    assert_eq!(pool.list().await.unwrap(), []);
}

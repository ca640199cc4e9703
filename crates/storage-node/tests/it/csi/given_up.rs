//! Callers that give up while their call is worked on, and come again.
use super::world::{Csi, new_volume, start};
use crate::world::Disk;
use async_trait::async_trait;
use orrery_proto::csi::v1::{
    CreateVolumeRequest, ListVolumesRequest, VolumeContentSource,
    volume_content_source::{Type, VolumeSource},
};
use orrery_storage_node::{
    Clock, Result, Volumes,
    backend::{
        Backend, Image, Target,
        loopback::{LoopConfig, Loopback},
    },
    volume::{Capacity, CephImage, Mapping, Media, Size, VolumeName},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Copies begin when the test lets them.
struct Gated {
    inner: Loopback,
    /// One permit for each copy that has come to the gate.
    waiting: Semaphore,
    /// One permit for each copy that may pass.
    open: Semaphore,
}

#[async_trait]
impl Backend for Gated {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    async fn provision(&self, image: &Image, size: Size, from: Option<&Image>) -> Result<()> {
        if from.is_some() {
            self.waiting.add_permits(1);
            self.open.acquire().await.unwrap().forget();
        }
        self.inner.provision(image, size, from).await
    }

    async fn check(&self, image: &Image) -> Result<Option<Size>> {
        self.inner.check(image).await
    }

    async fn delete(&self, image: &Image) -> Result<()> {
        self.inner.delete(image).await
    }

    async fn resize(&self, image: &Image, size: Size) -> Result<()> {
        self.inner.resize(image, size).await
    }

    async fn settle(&self, source: &Image) -> Result<()> {
        self.inner.settle(source).await
    }

    async fn map(&self, name: &VolumeName, target: &Target) -> Result<Mapping> {
        self.inner.map(name, target).await
    }

    async fn unmap(&self, name: &VolumeName, target: &Target) -> Result<()> {
        self.inner.unmap(name, target).await
    }

    async fn mapped(&self, name: &VolumeName, target: &Target) -> Result<Option<Mapping>> {
        self.inner.mapped(name, target).await
    }

    async fn list(&self) -> Result<Vec<Image>> {
        self.inner.list().await
    }

    async fn capacity(&self, media: Media) -> Result<Option<Capacity>> {
        self.inner.capacity(media).await
    }

    async fn look_at(&self, ceph: &CephImage) -> Result<Size> {
        self.inner.look_at(ceph).await
    }
}

async fn gated() -> (Csi, Arc<Gated>) {
    let disk = Disk::new();
    let config =
        LoopConfig { images: disk.images(), memory: disk.memory().to_owned(), devices_max: None };
    let inner = Loopback::open(&config).unwrap();
    let backend = Arc::new(Gated { inner, waiting: Semaphore::new(0), open: Semaphore::new(0) });
    let books = disk.folder.path().join("books");
    let volumes = Volumes::open(&books, backend.clone(), Clock::system()).await.unwrap();
    (start(disk, Arc::new(volumes), |config| config), backend)
}

fn copy_of(volume: &str) -> CreateVolumeRequest {
    let source = VolumeSource { volume_id: volume.to_owned() };
    let source = VolumeContentSource { r#type: Some(Type::Volume(source)) };
    CreateVolumeRequest { volume_content_source: Some(source), ..new_volume("copy") }
}

async fn ids(csi: &Csi) -> Vec<String> {
    let listed = csi.controller.clone().list_volumes(ListVolumesRequest::default()).await.unwrap();
    let entries = listed.into_inner().entries;
    entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect()
}

/// Asks for the copy, but not for long.
async fn ask_in_a_hurry(csi: &Csi, source: &str) -> std::result::Result<(), tonic::Status> {
    let mut request = tonic::Request::new(copy_of(source));
    request.set_timeout(Duration::from_millis(300));
    csi.controller.clone().create_volume(request).await.map(|_| ())
}

/// A provisioner waits some seconds, gives up and asks again, while a large volume is still copied.
/// proves: VOL-08
#[tokio::test]
async fn a_copy_goes_on_without_its_caller_and_is_there_only_when_it_is_whole() {
    let (csi, backend) = gated().await;
    let source = csi.create("source").await.volume_id;
    ask_in_a_hurry(&csi, &source).await.unwrap_err();
    backend.waiting.acquire().await.unwrap().forget();

    assert_eq!(ids(&csi).await, std::slice::from_ref(&source), "what is not whole is not shown");
    ask_in_a_hurry(&csi, &source).await.expect_err("the first call is still under way");
    assert_eq!(backend.waiting.available_permits(), 0, "nothing copies beside it");

    backend.open.add_permits(1);
    let copy = csi.create_with(copy_of(&source)).await.unwrap();
    assert!(csi.disk.images().join(format!("{}.img", copy.volume_id)).exists());
    assert_eq!(ids(&csi).await.len(), 2);
    assert_eq!(backend.waiting.available_permits(), 0, "it was copied once");
}

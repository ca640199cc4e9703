//! What the controllers of this domain watch, and what each change makes them look at again.
use crate::volume::controller::Views;
use orrery_hub::{Error, Hub, ObjectName};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::infra::v1::Node;
use orrery_proto::storage::v1::{
    StorageController, Volume, VolumeAttachment, VolumeAttachmentSpec, VolumeSnapshot,
    VolumeSnapshotSpec, VolumeSource,
};
use orrery_runtime::{Change, KeyQueue, OnEnd, Reflector, Tasks, View};
use std::sync::Arc;
use tokio::sync::watch;

type Queue = KeyQueue<ObjectName>;

/// Where the names of what is concerned are left, for each controller.
pub struct Queues {
    pub volumes: Queue,
    pub edge: Queue,
    pub attachments: Queue,
    pub snapshots: Queue,
}

pub struct Watches {
    pub controllers: Reflector<StorageController>,
    volumes: Reflector<Volume>,
    attachments: Reflector<VolumeAttachment>,
    snapshots: Reflector<VolumeSnapshot>,
    nodes: Reflector<Node>,
    instances: Reflector<WorkloadInstance>,
}

impl Watches {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self {
            controllers: Reflector::new(hub.resources()?),
            volumes: Reflector::new(hub.resources()?),
            attachments: Reflector::indexed(hub.resources()?, by_volume),
            snapshots: Reflector::new(hub.resources()?),
            nodes: Reflector::new(hub.resources()?),
            instances: Reflector::indexed(hub.resources()?, by_project),
        })
    }

    pub fn views(&self) -> Views {
        Views {
            volumes: self.volumes.view(),
            attachments: self.attachments.view(),
            controllers: self.controllers.view(),
            snapshots: self.snapshots.view(),
            nodes: self.nodes.view(),
            instances: self.instances.view(),
        }
    }

    /// Leaves the keys of what is concerned in the queues.
    pub fn feed(&mut self, queues: &Queues) {
        let Queues { volumes, edge, attachments, snapshots } = queues;
        let views = self.views();
        self.feed_from_volumes(&views, queues);
        self.feed_from_snapshots(&views, volumes, snapshots);
        self.feed_from_attachments(volumes, edge, attachments);
        let (queue, views_of) = (volumes.clone(), views.clone());
        self.instances.on_change(move |change| {
            for name in change.old.iter().chain(&change.new).flat_map(|found| mounted(found)) {
                queue.add(ObjectName::new(&change.name.project, name));
            }
        });
        let (queues, found) = ([volumes.clone(), edge.clone()], attachments.clone());
        let kept = snapshots.clone();
        self.controllers.on_change(move |change| {
            if told(&change.old) == told(&change.new) {
                return;
            }
            // Few at a site, and seldom: everything that might wait for it looks again.
            let names = views_of.volumes.names();
            names.iter().for_each(|name| queues.iter().for_each(|queue| queue.add(name.clone())));
            views_of.attachments.names().into_iter().for_each(|name| found.add(name));
            views_of.snapshots.names().into_iter().for_each(|name| kept.add(name));
        });
        let (queues, known) = ([volumes.clone(), attachments.clone()], views);
        self.nodes.on_change(move |change| {
            let labels = |node: &Option<Arc<Node>>| {
                node.as_ref().and_then(|node| node.metadata.clone()).map(|meta| meta.labels)
            };
            if labels(&change.old) != labels(&change.new) {
                known.volumes.names().into_iter().for_each(|name| queues[0].add(name));
                known.attachments.names().into_iter().for_each(|name| queues[1].add(name));
            }
        });
    }

    /// A snapshot may be what a copy waits for, and is what the deletion of its volume leaves behind.
    fn feed_from_snapshots(&mut self, views: &Views, volumes: &Queue, snapshots: &Queue) {
        let (volumes, snapshots, all) = (volumes.clone(), snapshots.clone(), views.volumes.clone());
        self.snapshots.on_change(move |change: &Change<VolumeSnapshot>| {
            snapshots.add(change.name.clone());
            for found in change.old.iter().chain(&change.new) {
                volumes.add(ObjectName::new(&change.name.project, taken_of(found)));
            }
            copies(&all, &change.name, true).into_iter().for_each(|copy| volumes.add(copy));
        });
    }

    fn feed_from_volumes(&mut self, views: &Views, to: &Queues) {
        let queues = [to.volumes.clone(), to.edge.clone()];
        let (attachments, found) = (views.attachments.clone(), to.attachments.clone());
        let (kept, snapshots) = (views.snapshots.clone(), to.snapshots.clone());
        let all = views.volumes.clone();
        self.volumes.on_change(move |change: &Change<Volume>| {
            queues.iter().for_each(|queue| queue.add(change.name.clone()));
            for (name, _) in attachments.indexed(&change.name.to_string()) {
                found.add(name);
            }
            for copy in copies(&all, &change.name, false) {
                queues[0].add(copy);
            }
            for (name, snapshot) in kept.all() {
                if name.project == change.name.project && taken_of(&snapshot) == change.name.name {
                    snapshots.add(name);
                }
            }
        });
    }

    fn feed_from_attachments(&mut self, volumes: &Queue, edge: &Queue, found: &Queue) {
        let (queues, found) = ([volumes.clone(), edge.clone()], found.clone());
        let view = self.attachments.view();
        self.attachments.on_change(move |change: &Change<VolumeAttachment>| {
            found.add(change.name.clone());
            let named = |found: &Arc<VolumeAttachment>| volume_of(&change.name, found);
            for volume in change.old.iter().chain(&change.new).filter_map(named) {
                // One that goes may have been what another one waited for.
                view.indexed(&volume.to_string()).into_iter().for_each(|(name, _)| found.add(name));
                queues.iter().for_each(|queue| queue.add(volume.clone()));
            }
        });
    }

    pub fn synced(&self) -> Vec<watch::Receiver<bool>> {
        vec![
            self.controllers.synced(),
            self.volumes.synced(),
            self.attachments.synced(),
            self.snapshots.synced(),
            self.nodes.synced(),
            self.instances.synced(),
        ]
    }

    pub fn spawn(self, tasks: &mut Tasks) {
        let stop = tasks.stop_token();
        let all = OnEnd::StopAll;
        tasks.spawn("storage-controller-watch", all, self.controllers.run(stop.clone()));
        tasks.spawn("volume-watch", all, self.volumes.run(stop.clone()));
        tasks.spawn("attachment-watch", all, self.attachments.run(stop.clone()));
        tasks.spawn("volume-snapshot-watch", all, self.snapshots.run(stop.clone()));
        tasks.spawn("storage-node-watch", all, self.nodes.run(stop.clone()));
        tasks.spawn("storage-instance-watch", all, self.instances.run(stop));
    }
}

/// What matters of a controller to volumes: not how often it is heard of.
fn told(controller: &Option<Arc<StorageController>>) -> Option<(String, String, bool)> {
    let controller = controller.as_deref()?;
    let spec = controller.spec.clone().unwrap_or_default();
    let state = controller.status.as_ref().map(|status| status.state.clone());
    Some((spec.address().to_owned(), state.unwrap_or_default(), spec.unschedulable()))
}

/// Volumes that are to be copies of this volume, or of the VolumeSnapshot with this name.
fn copies(all: &View<Volume>, name: &ObjectName, snapshot: bool) -> Vec<ObjectName> {
    let named = |source: &VolumeSource| match snapshot {
        true => source.volume.is_none() && source.snapshot() == name.name,
        false => source.volume() == name.name,
    };
    let copies = all.all().into_iter().filter(|(other, volume)| {
        let source = volume.spec.as_ref().and_then(|spec| spec.source.as_ref());
        other.project == name.project && source.is_some_and(named)
    });
    copies.map(|(name, _)| name).collect()
}

/// The volume that a snapshot is to be taken of.
fn taken_of(snapshot: &VolumeSnapshot) -> &str {
    snapshot.spec.as_ref().map(VolumeSnapshotSpec::volume).unwrap_or_default()
}

/// The index key of an attachment: its volume.
fn by_volume(name: &ObjectName, attachment: &VolumeAttachment) -> Option<String> {
    volume_of(name, attachment).map(|volume| volume.to_string())
}

fn volume_of(name: &ObjectName, attachment: &VolumeAttachment) -> Option<ObjectName> {
    let volume = VolumeAttachmentSpec::volume(attachment.spec.as_ref()?);
    Some(ObjectName::new(&name.project, volume))
}

/// The index key of a copy of a workload that mounts volumes: its project.
fn by_project(name: &ObjectName, instance: &WorkloadInstance) -> Option<String> {
    (!mounted(instance).is_empty()).then(|| name.project.clone())
}

/// The names of the volumes that a copy of a workload mounts.
fn mounted(instance: &WorkloadInstance) -> Vec<String> {
    let mounts = instance.spec.as_ref().map(|spec| spec.volumes.as_slice()).unwrap_or_default();
    mounts.iter().map(|mount| mount.volume().to_owned()).collect()
}

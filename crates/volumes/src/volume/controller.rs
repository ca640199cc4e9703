//! The volume controller: asks the plan and does what it says.
use super::plan::{Around, Host, Source, User, plan};
use super::{DATA_FINALIZER, controller_of};
use crate::controllers;
use crate::status::{self, meta, ready};
use async_trait::async_trait;
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::apps::v1::{WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::core::v1::ObjectReference;
use orrery_proto::infra::v1::Node;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_proto::storage::v1::{
    StorageController, StorageControllerSpec, Volume, VolumeAttachment, VolumeSnapshot,
    VolumeSource,
};
use orrery_runtime::{Next, Reconciler, View, conditions};
use std::{sync::Arc, time::Duration};

/// A volume that fits nowhere looks for room again after this.
const LOOK_FOR_ROOM: Duration = Duration::from_secs(30);

/// What the watches have told.
#[derive(Clone)]
pub struct Views {
    pub volumes: Arc<View<Volume>>,
    /// Indexed by project and volume.
    pub attachments: Arc<View<VolumeAttachment>>,
    pub controllers: Arc<View<StorageController>>,
    pub snapshots: Arc<View<VolumeSnapshot>>,
    pub nodes: Arc<View<Node>>,
    /// Those that mount volumes, by project.
    pub instances: Arc<View<WorkloadInstance>>,
}

pub struct VolumeReconciler {
    volumes: Resources<Volume>,
    attachments: Resources<VolumeAttachment>,
    views: Views,
    recorder: Recorder,
    clock: Arc<dyn Clock>,
}

impl VolumeReconciler {
    pub fn new(hub: &Hub, views: Views) -> Result<Self, Error> {
        Ok(Self {
            volumes: hub.resources()?,
            attachments: hub.resources()?,
            views,
            recorder: Recorder::new(hub, "volumes")?,
            clock: hub.clock().clone(),
        })
    }

    fn around(&self, key: &ObjectName, volume: &Volume) -> Around {
        let attachments = self.views.attachments.indexed(&key.to_string());
        Around {
            hosts: self.views.controllers.all().iter().filter_map(host).collect(),
            users: self.users(key),
            attachments: attachments.iter().map(|(_, found)| (**found).clone()).collect(),
            source: self.source(key, volume),
            kept: self.kept(key, volume),
        }
    }

    /// The snapshots that were taken of the volume and are no part of it.
    fn kept(&self, key: &ObjectName, volume: &Volume) -> Vec<String> {
        let uid = &meta(&volume.metadata).uid;
        let of_this = |snapshot: &VolumeSnapshot| {
            let status = snapshot.status.as_ref();
            status.is_some_and(|status| status.volume_uid == *uid && status.size_bytes != 0)
        };
        let all = self.views.snapshots.all().into_iter();
        let mut kept: Vec<String> = all
            .filter(|(name, snapshot)| name.project == key.project && of_this(snapshot))
            .map(|(name, _)| name.name)
            .collect();
        kept.sort();
        kept
    }

    /// What a VolumeSnapshot has for a copy of it.
    fn snapshot(&self, project: &str, name: &str) -> Source {
        let Some(found) = self.views.snapshots.get(&ObjectName::new(project, name)) else {
            return Source::Missing(format!("there is no volume snapshot {name}"));
        };
        let status = found.status.clone().unwrap_or_default();
        match status.size_bytes {
            0 => Source::Missing(format!("the volume snapshot {name} is not taken yet")),
            _ => Source::On(status.controller),
        }
    }

    /// The copies of workloads that mount the volume, also those that are on their way out.
    fn users(&self, key: &ObjectName) -> Vec<User> {
        let instances = self.views.instances.indexed(&key.project);
        let user = |(_, instance): (ObjectName, Arc<WorkloadInstance>)| {
            let spec = instance.spec.as_ref()?;
            spec.volumes.iter().find(|mount| mount.volume() == key.name)?;
            let node = WorkloadInstanceSpec::node(spec).to_owned();
            let found = self.views.nodes.get(&ObjectName::new("", &node));
            let controller = controller_of(&node, found.as_deref());
            Some(User { node, controller, workload: spec.workload().to_owned() })
        };
        let mut users: Vec<User> = instances.into_iter().filter_map(user).collect();
        users.sort();
        users
    }

    fn source(&self, key: &ObjectName, volume: &Volume) -> Source {
        let source = volume.spec.as_ref().and_then(|spec| spec.source.as_ref());
        let Some(source) = source else { return Source::None };
        if source.volume.is_none() {
            return self.snapshot(&key.project, source.snapshot());
        }
        let name = ObjectName::new(&key.project, VolumeSource::volume(source));
        let Some(found) = self.views.volumes.get(&name) else {
            return Source::Missing(format!("there is no volume {}", name.name));
        };
        let status = found.status.clone().unwrap_or_default();
        let observed = status.observed.unwrap_or_default();
        if observed.size_bytes == 0 {
            return Source::Missing(format!("the volume {} is not there yet", name.name));
        }
        let ceph = found.spec.as_ref().is_some_and(|spec| spec.ceph.is_some());
        match &source.snapshot {
            _ if ceph => {
                let name = &name.name;
                Source::Missing(format!("the volume {name} is an image of Ceph: copy it there"))
            }
            Some(wanted) if !observed.snapshots.iter().any(|known| known.name == *wanted) => {
                Source::Missing(format!("{} has no snapshot {wanted} yet", name.name))
            }
            Some(_) | None => Source::On(status.controller),
        }
    }

    async fn release(&self, key: &ObjectName, left: Option<&str>) -> Result<(), Error> {
        if let Some(left) = left {
            tracing::warn!(volume = %key, left, "a volume is forgotten with its data");
            let regarding = ObjectReference {
                kind: Some("Volume".into()),
                name: Some(key.name.clone()),
                project: Some(key.project.clone()),
                ..ObjectReference::default()
            };
            let message = format!("forgotten while its host was away: {left}");
            let (severity, reason) = (Severity::Warning, "Forgotten");
            self.recorder.record(Happening { regarding, severity, reason, message }).await;
        }
        let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != DATA_FINALIZER);
        gone_is_fine(self.volumes.update_meta(key, without).await.map(|_| ()))
    }
}

#[async_trait]
impl Reconciler<ObjectName> for VolumeReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(volume) = self.volumes.find(key).await? else { return Ok(Next::AwaitChange) };
        let around = self.around(key, &volume);
        let planned = plan(&volume, &around);
        let now = self.clock.now();
        // Placed before anything is attached: the edge acts on what is written.
        let written = status::update(&self.volumes, key, |volume| {
            let fresh = plan(volume, &around);
            let mut next = fresh.status;
            let truth = if next.state == "Ready" { "True" } else { "False" };
            let generation = meta(&volume.metadata).generation;
            let condition = ready(truth, &next.reason, &next.message, generation);
            conditions::set(&mut next.conditions, condition, now);
            volume.status = Some(next);
        });
        written.await?;
        for attachment in &planned.attach {
            match self.attachments.create(attachment).await {
                Ok(_) | Err(Error::AlreadyExists { .. } | Error::ProjectTerminating { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for name in &planned.detach {
            self.attachments.delete(&ObjectName::new(&key.project, name)).await?;
        }
        if planned.release {
            self.release(key, planned.left_behind.as_deref()).await?;
        }
        // How much is free somewhere changes without a word.
        let full = planned.status.reason == "OutOfSpace" && planned.status.controller.is_empty();
        Ok(if full { Next::After(LOOK_FOR_ROOM) } else { Next::AwaitChange })
    }
}

/// A storage controller by its id.
pub fn host((name, controller): &(ObjectName, Arc<StorageController>)) -> Option<(String, Host)> {
    let id = controllers::entry(&name.name, controller)?.id.to_string();
    let status = controller.status.clone().unwrap_or_default();
    let spec = controller.spec.as_ref();
    let host = Host {
        name: name.name.clone(),
        ready: status.state == "Ready",
        unschedulable: spec.is_some_and(StorageControllerSpec::unschedulable),
        available: status.available_bytes,
        backend: status.backend,
    };
    Some((id, host))
}

/// What is gone already needs nothing more.
pub fn gone_is_fine(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
        other => other,
    }
}

//! The workload controller: asks the plan and does what it says.
use super::{AGENT_FINALIZER, INSTANCES_FINALIZER, plan, summary};
use async_trait::async_trait;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::infra::v1::Node;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler, View};
use std::collections::BTreeSet;
use std::sync::Arc;

pub struct WorkloadReconciler {
    workloads: Resources<Workload>,
    instances: Resources<WorkloadInstance>,
    instance_view: Arc<View<WorkloadInstance>>,
    node_view: Arc<View<Node>>,
    clock: Arc<dyn Clock>,
}

impl WorkloadReconciler {
    pub fn new(
        hub: &Hub,
        instance_view: Arc<View<WorkloadInstance>>,
        node_view: Arc<View<Node>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            workloads: hub.resources()?,
            instances: hub.resources()?,
            instance_view,
            node_view,
            clock: hub.clock().clone(),
        })
    }

    fn copies(&self, key: &ObjectName) -> Vec<WorkloadInstance> {
        let copies = self.instance_view.indexed(&key.to_string());
        copies.into_iter().map(|(_, instance)| WorkloadInstance::clone(&instance)).collect()
    }

    fn nodes(&self) -> BTreeSet<String> {
        self.node_view.names().into_iter().map(|name| name.name).collect()
    }

    async fn carry_out(&self, project: &str, plan: &plan::Plan) -> Result<(), Error> {
        for instance in &plan.create {
            match self.instances.create(instance).await {
                Ok(_) | Err(Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        for instance in &plan.update {
            self.instances.apply(instance).await?;
        }
        for (name, status) in &plan.introduce {
            let metadata = named(project, name);
            let status = Some(status.clone());
            let instance = WorkloadInstance { metadata, status, ..WorkloadInstance::default() };
            ignore_gone(self.instances.write_status(&instance).await.map(|_| ()))?;
        }
        for name in &plan.delete {
            self.instances.delete(&ObjectName::new(project, name)).await?;
        }
        for name in &plan.release {
            let name = ObjectName::new(project, name);
            ignore_gone(release(&self.instances, &name, AGENT_FINALIZER).await)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Reconciler<ObjectName> for WorkloadReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let Some(workload) = self.workloads.find(key).await? else { return Ok(Next::AwaitChange) };
        let copies = self.copies(key);
        let plan = plan::plan(&workload, &copies, &self.nodes());
        self.carry_out(&key.project, &plan).await?;
        if plan.finished {
            ignore_gone(release(&self.workloads, key, INSTANCES_FINALIZER).await)?;
            return Ok(Next::AwaitChange);
        }
        let status = summary::summarize(&workload, &copies, self.clock.now());
        if workload.status.as_ref() != Some(&status) {
            let metadata = named(&key.project, &key.name);
            let next = Workload { metadata, status: Some(status), ..Workload::default() };
            ignore_gone(self.workloads.write_status(&next).await.map(|_| ()))?;
        }
        Ok(Next::AwaitChange)
    }
}

/// Takes a finalizer away from an object.
pub(crate) async fn release<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    name: &ObjectName,
    finalizer: &str,
) -> Result<(), Error> {
    let without = |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != finalizer);
    resources.update_meta(name, without).await.map(|_| ())
}

/// What is gone already needs nothing more.
pub(crate) fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
        other => other,
    }
}

fn named(project: &str, name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.to_owned(), project: project.to_owned(), ..ObjectMeta::default() })
}

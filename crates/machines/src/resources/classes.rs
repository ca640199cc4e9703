//! A class that is in use stays: its deletion waits for those who use it.
use super::refs::{CLASS_FINALIZER, is_going, meta, named, owner};
use super::sets::LeaderViews;
use super::{ignore_gone, unavailable};
use crate::controller::WorldError;
use async_trait::async_trait;
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::infra::v1::{MachineClass, MachineClassStatus};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_runtime::{Next, Reconciler, conditions};

/// How many users of a class are named.
const NAMED_MAX: usize = 5;

pub struct ClassReconciler {
    hub: Hub,
    classes: Resources<MachineClass>,
    views: LeaderViews,
}

impl LeaderViews {
    /// Who uses a class: deployments and sets that make machines of it, and machines. A set that its
    /// deployment keeps to go back to holds nobody up.
    pub fn users_of(&self, class: &ObjectName) -> Vec<String> {
        let here = |name: &ObjectName| name.project == class.project;
        let deployments = self.deployments.all().into_iter().filter(|(name, it)| {
            let template = it.spec.as_ref().and_then(|spec| spec.template.as_ref());
            here(name) && template.is_some_and(|it| it.class() == class.name)
        });
        let sets = self.sets.all().into_iter().filter(|(name, it)| {
            let template = it.spec.as_ref().and_then(|spec| spec.template.as_ref());
            here(name)
                && owner(&it.metadata, "MachineDeployment").is_none()
                && template.is_some_and(|it| it.class() == class.name)
        });
        let machines = self.machines.all().into_iter().filter(|(name, it)| {
            here(name) && it.spec.as_ref().is_some_and(|spec| spec.class() == class.name)
        });
        let deployments = deployments.map(|(name, _)| format!("machinedeployment/{}", name.name));
        let sets = sets.map(|(name, _)| format!("machineset/{}", name.name));
        let machines = machines.map(|(name, _)| format!("machine/{}", name.name));
        deployments.chain(sets).chain(machines).collect()
    }
}

impl ClassReconciler {
    pub fn new(hub: &Hub, views: LeaderViews) -> Result<Self, Error> {
        Ok(Self { hub: hub.clone(), classes: hub.resources()?, views })
    }

    async fn say_in_use(&self, class: &MachineClass, users: &[String]) -> Result<(), Error> {
        let shown: Vec<&str> = users.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = match users.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let condition = Condition {
            r#type: "InUse".to_owned(),
            status: "True".to_owned(),
            reason: "Waiting".to_owned(),
            message: format!("it goes when these have gone: {}{more}", shown.join(", ")),
            ..Condition::default()
        };
        let mut status = class.status.clone().unwrap_or_default();
        let before = status.clone();
        conditions::set(&mut status.conditions, condition, self.hub.clock().now());
        if status == before {
            return Ok(());
        }
        let own = meta(&class.metadata);
        let next = MachineClass {
            metadata: named(&ObjectName::new(&own.project, &own.name)),
            status: Some(MachineClassStatus { conditions: status.conditions }),
            ..MachineClass::default()
        };
        ignore_gone(self.classes.write_status(&next).await).map(|_| ())
    }
}

#[async_trait]
impl Reconciler<ObjectName> for ClassReconciler {
    type Error = WorldError;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, WorldError> {
        if self.hub.upstream_of(self.classes.kind()).is_some() {
            // Who keeps it holds it, and lets it go.
            return Ok(Next::AwaitChange);
        }
        let class = self.classes.find(key).await.map_err(unavailable)?;
        let Some(class) = class.filter(|class| is_going(&class.metadata)) else {
            return Ok(Next::AwaitChange);
        };
        let users = self.views.users_of(key);
        if users.is_empty() {
            let without =
                |meta: &mut ObjectMeta| meta.finalizers.retain(|it| it != CLASS_FINALIZER);
            let released = self.classes.update_meta(key, without).await;
            ignore_gone(released).map_err(unavailable)?;
        } else {
            self.say_in_use(&class, &users).await.map_err(unavailable)?;
        }
        Ok(Next::AwaitChange)
    }
}

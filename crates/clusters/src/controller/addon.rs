//! Addons: who names them, and that they stay as long as somebody does.
use super::{ignore_gone, in_use, outcome, parts};
use crate::names::{ADDON_FINALIZER, is_going, meta};
use crate::watches::Views;
use async_trait::async_trait;
use orrery_hub::{Error, Hub, ListOptions, ObjectName, Resources};
use orrery_proto::infra::v1::{Addon, AddonStatus, Blueprint};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler, conditions};

pub struct AddonReconciler {
    hub: Hub,
    addons: Resources<Addon>,
    blueprints: Resources<Blueprint>,
    views: Views,
}

impl AddonReconciler {
    pub fn new(hub: &Hub, views: Views) -> Result<Self, Error> {
        let (addons, blueprints) = (hub.resources()?, hub.resources()?);
        Ok(Self { hub: hub.clone(), addons, blueprints, views })
    }

    async fn settle(&self, key: &ObjectName, addon: &Addon) -> Result<Next, Error> {
        let going = is_going(&addon.metadata);
        let users = self.users(key, going).await?;
        if going && users.is_empty() {
            let without =
                |meta: &mut ObjectMeta| meta.finalizers.retain(|held| held != ADDON_FINALIZER);
            ignore_gone(self.addons.update_meta(key, without).await)?;
            return Ok(Next::AwaitChange);
        }
        let generation = meta(&addon.metadata).generation;
        let mut status = AddonStatus {
            blueprints: i32::try_from(users.len()).unwrap_or(i32::MAX),
            observed_generation: generation,
            ..addon.status.clone().unwrap_or_default()
        };
        if going {
            let condition = in_use::condition(&users, generation);
            conditions::set(&mut status.conditions, condition, self.hub.clock().now());
        }
        self.publish(addon, status).await?;
        Ok(Next::AwaitChange)
    }

    /// The blueprints that name it. Whoever lets it go looks at what is stored.
    async fn users(&self, key: &ObjectName, going: bool) -> Result<Vec<String>, Error> {
        let names: Vec<String> = match going {
            false => self.views.blueprints_with(key).into_iter().map(|it| it.name).collect(),
            true => {
                let project = Some(key.project.clone());
                let options = ListOptions { project, ..ListOptions::default() };
                let names_it = |blueprint: &Blueprint| {
                    let spec = blueprint.spec.as_ref();
                    spec.is_some_and(|spec| spec.addons.iter().any(|it| it.name() == key.name))
                };
                let all = self.blueprints.list(options).await?.into_iter().filter(names_it);
                all.map(|blueprint| meta(&blueprint.metadata).name.clone()).collect()
            }
        };
        Ok(names.into_iter().map(|name| format!("blueprint/{name}")).collect())
    }

    async fn publish(&self, of: &Addon, status: AddonStatus) -> Result<(), Error> {
        if of.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let metadata = of.metadata.clone();
        let next = Addon { metadata, status: Some(status), ..Addon::default() };
        parts::write_status(&self.addons, &of.metadata, &next).await
    }
}

#[async_trait]
impl Reconciler<ObjectName> for AddonReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        match self.addons.find(key).await? {
            Some(addon) => outcome(self.settle(key, &addon).await),
            None => Ok(Next::AwaitChange),
        }
    }
}

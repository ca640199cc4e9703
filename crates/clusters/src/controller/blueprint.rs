//! Blueprints: whether all they name is there, and who has them.
use super::{ignore_gone, in_use, outcome, parts, resolve};
use crate::names::{BLUEPRINT_FINALIZER, is_going, meta};
use crate::watches::Views;
use async_trait::async_trait;
use orrery_hub::{Error, Hub, ListOptions, ObjectName, Resources};
use orrery_proto::infra::v1::{Addon, Blueprint, BlueprintStatus, Cluster};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_runtime::{Next, Reconciler, conditions};

pub struct BlueprintReconciler {
    hub: Hub,
    clusters: Resources<Cluster>,
    blueprints: Resources<Blueprint>,
    addons: Resources<Addon>,
    views: Views,
}

impl BlueprintReconciler {
    pub fn new(hub: &Hub, views: Views) -> Result<Self, Error> {
        Ok(Self {
            hub: hub.clone(),
            clusters: hub.resources()?,
            blueprints: hub.resources()?,
            addons: hub.resources()?,
            views,
        })
    }

    async fn settle(&self, key: &ObjectName, blueprint: &Blueprint) -> Result<Next, Error> {
        let going = is_going(&blueprint.metadata);
        let users = self.users(key, &meta(&blueprint.metadata).uid, going).await?;
        if going && users.is_empty() {
            let without = |meta: &mut ObjectMeta| {
                meta.finalizers.retain(|held| held != BLUEPRINT_FINALIZER);
            };
            ignore_gone(self.blueprints.update_meta(key, without).await)?;
            return Ok(Next::AwaitChange);
        }
        let problems = self.problems(key, blueprint).await?;
        let status = self.status(blueprint, &users, &problems, going);
        self.publish(blueprint, status).await?;
        Ok(Next::AwaitChange)
    }

    /// What is wrong with what it names.
    async fn problems(&self, key: &ObjectName, of: &Blueprint) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        for entry in &of.spec.clone().unwrap_or_default().addons {
            problems.extend(resolve::addon(&self.addons, &key.project, entry).await?.err());
        }
        Ok(problems)
    }

    /// The clusters that mean this very blueprint by its name. Whoever lets it go looks at what is stored.
    async fn users(&self, key: &ObjectName, uid: &str, going: bool) -> Result<Vec<String>, Error> {
        let named = |cluster: &Cluster| {
            cluster.spec.as_ref().is_some_and(|spec| spec.blueprint() == key.name)
        };
        let all: Vec<ObjectName> = match going {
            true => {
                let all = self.clusters.list(ListOptions::default()).await?;
                let name = |cluster: &Cluster| {
                    let own = meta(&cluster.metadata);
                    ObjectName::new(&own.project, &own.name)
                };
                all.iter().filter(|it| named(it)).map(name).collect()
            }
            false => {
                let all = self.views.clusters.all().into_iter();
                all.filter(|(_, it)| named(it)).map(|(name, _)| name).collect()
            }
        };
        let mut users = Vec::new();
        for name in all {
            let meant = ObjectName::new(&name.project, &key.name);
            let found = resolve::blueprint(&self.blueprints, &meant).await?;
            if found.is_some_and(|found| meta(&found.blueprint.metadata).uid == uid) {
                users.push(match name.project == key.project {
                    true => format!("cluster/{}", name.name),
                    false => format!("cluster/{} of project {}", name.name, name.project),
                });
            }
        }
        Ok(users)
    }

    fn status(
        &self,
        of: &Blueprint,
        users: &[String],
        problems: &[String],
        going: bool,
    ) -> BlueprintStatus {
        let generation = meta(&of.metadata).generation;
        let (state, status, reason) = match problems.is_empty() {
            true => ("Ready", "True", "Found"),
            false => ("Failing", "False", "AddonNotFound"),
        };
        let said = problems.join("; ");
        let ready = Condition {
            r#type: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: said.clone(),
            observed_generation: generation,
            last_transition_time: None,
        };
        let now = self.hub.clock().now();
        let mut conditions = of.status.clone().unwrap_or_default().conditions;
        conditions::set(&mut conditions, ready, now);
        if going {
            conditions::set(&mut conditions, in_use::condition(users, generation), now);
        }
        BlueprintStatus {
            state: state.to_owned(),
            message: said,
            clusters: i32::try_from(users.len()).unwrap_or(i32::MAX),
            observed_generation: generation,
            conditions,
        }
    }

    async fn publish(&self, of: &Blueprint, status: BlueprintStatus) -> Result<(), Error> {
        if of.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let metadata = of.metadata.clone();
        let next = Blueprint { metadata, status: Some(status), ..Blueprint::default() };
        parts::write_status(&self.blueprints, &of.metadata, &next).await
    }
}

#[async_trait]
impl Reconciler<ObjectName> for BlueprintReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        match self.blueprints.find(key).await? {
            Some(blueprint) => outcome(self.settle(key, &blueprint).await),
            None => Ok(Next::AwaitChange),
        }
    }
}

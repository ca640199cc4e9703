//! A secret that a class in use names stays: without it no machine of that class can be deleted, and
//! what runs at the provider would run on with nobody able to end it.
use super::refs::{SECRET_FINALIZER, is_going, meta};
use super::sets::LeaderViews;
use super::{ignore_gone, unavailable};
use crate::controller::WorldError;
use async_trait::async_trait;
use orrery_api::{Encoded, ObjectError};
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::{MachineClassSpec, MachineSet};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::{Next, Reconciler};

/// Holds secrets while they are needed. The hold is put back if somebody takes it away meanwhile.
pub struct SecretReconciler {
    secrets: Resources<Secret>,
    views: LeaderViews,
}

impl SecretReconciler {
    pub fn new(hub: &Hub, views: LeaderViews) -> Result<Self, Error> {
        Ok(Self { secrets: hub.resources()?, views })
    }

    /// Whether anything that is or may come at the provider needs this secret: what a class in use says
    /// now, or what it said when a set was made that still has machines.
    fn is_needed(&self, secret: &ObjectName) -> bool {
        let here = |project: &str| project == secret.project;
        let named =
            |spec: Option<&MachineClassSpec>| spec.is_some_and(|spec| spec.secret() == secret.name);
        let classes = self.views.classes.all().into_iter();
        let mut classes =
            classes.filter(|(name, class)| here(&name.project) && named(class.spec.as_ref()));
        if classes.any(|(name, _)| !self.views.users_of(&name).is_empty()) {
            return true;
        }
        self.views.sets.all().into_iter().any(|(name, set)| {
            here(&name.project)
                && named(snapshot(&set))
                && !self.views.machines.indexed(&meta(&set.metadata).uid).is_empty()
        })
    }
}

/// The class as it was when a set was made from it.
pub fn snapshot(set: &MachineSet) -> Option<&MachineClassSpec> {
    set.spec.as_ref()?.class_snapshot.as_ref()
}

/// What a secret is reconciled by. Its content is nobody's business here, and there may be much of it.
pub fn holds(secret: &Encoded) -> Result<Option<Secret>, ObjectError> {
    let ObjectMeta { finalizers, deletion_timestamp, .. } = secret.meta()?;
    let metadata = ObjectMeta { finalizers, deletion_timestamp, ..ObjectMeta::default() };
    Ok(Some(Secret { metadata: Some(metadata), ..Secret::default() }))
}

#[async_trait]
impl Reconciler<ObjectName> for SecretReconciler {
    type Error = WorldError;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, WorldError> {
        let needed = self.is_needed(key);
        let Some(secret) = self.secrets.find(key).await.map_err(unavailable)? else {
            return Ok(Next::AwaitChange);
        };
        let held = meta(&secret.metadata).finalizers.iter().any(|it| it == SECRET_FINALIZER);
        // What goes already takes no new holds.
        if needed == held || (needed && is_going(&secret.metadata)) {
            return Ok(Next::AwaitChange);
        }
        let change = |meta: &mut ObjectMeta| {
            meta.finalizers.retain(|it| it != SECRET_FINALIZER);
            if needed {
                meta.finalizers.push(SECRET_FINALIZER.to_owned());
            }
        };
        let changed = self.secrets.update_meta(key, change).await;
        ignore_gone(changed).map_err(unavailable)?;
        Ok(Next::AwaitChange)
    }
}

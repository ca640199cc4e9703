//! Going back to an earlier revision: the template becomes what the set of that revision was made from.
use super::{OneDeployment, revision};
use crate::controller::{Next, WorldError};
use crate::plan::Reason;
use crate::plan::deployment::rollback;
use crate::resources::unavailable;
use orrery_hub::{ApplyOptions, Error};
use orrery_proto::infra::v1::{MachineDeployment, MachineTemplate};

impl OneDeployment<'_> {
    /// Answers the request and takes it away, whatever comes of it.
    pub(super) async fn roll_back(&self) -> Result<Next, WorldError> {
        let spec = self.spec();
        let hash = self.wanted().map(|wanted| wanted.hash).unwrap_or_default();
        let to = spec.rollback_to.and_then(|to| to.revision);
        let to = to.and_then(|revision| u64::try_from(revision).ok());
        let sets = self.set_views();
        let target = rollback(&self.plan_spec(&hash), &sets, to);
        let (template, reason) = match &target {
            Ok(target) => {
                let text = format!("back to revision {}", target.revision);
                (self.template_of(&target.name), Reason::new("RolledBack", text))
            }
            Err(reason) => (None, reason.clone()),
        };
        self.write_template(template).await.map_err(unavailable)?;
        self.all.tell(&self.deployment, &reason).await;
        Ok(Next::AwaitChange)
    }

    fn template_of(&self, set: &str) -> Option<MachineTemplate> {
        let set = self.sets.iter().find(|(name, _)| name.name == set);
        set.and_then(|(_, set)| set.spec.as_ref()?.template.clone())
    }

    async fn write_template(&self, template: Option<MachineTemplate>) -> Result<(), Error> {
        let mut next = MachineDeployment::clone(&self.deployment);
        let mut spec = self.spec();
        spec.rollback_to = None;
        if let (Some(own), Some(before)) = (spec.template.as_mut(), template) {
            own.class = before.class;
            own.class_revision = before.class_revision;
            own.labels = before.labels;
        }
        next.spec = Some(spec);
        let at = revision(&self.deployment.metadata)?;
        let object = super::stored(&self.all.deployments, &next)?;
        let deployments = self.all.deployments.accessor();
        deployments.apply(object, ApplyOptions::replace_at(at)).await.map(|_| ())
    }
}

//! One deployment: gives its sets their targets and ceilings.
use super::{Next, WorldError};
use crate::plan::deployment::{DeploymentPlan, DeploymentSpec, Progress, SetView, plan};

#[derive(Clone, Debug)]
pub struct DeploymentObject {
    /// What the plan is made from: the deployment and all its sets; handed back with the plan.
    pub version: u64,
    pub spec: DeploymentSpec,
    pub sets: Vec<SetView>,
    /// As last published.
    pub progress: Option<Progress>,
}

#[async_trait::async_trait]
pub trait DeploymentWorld: Send + Sync {
    async fn deployment(&self, name: &str) -> Result<Option<DeploymentObject>, WorldError>;

    /// Writes the progress in a commit that holds only if neither the deployment nor any of its sets has
    /// changed since this version; then the sets.
    async fn commit(
        &self,
        name: &str,
        version: u64,
        plan: &DeploymentPlan,
    ) -> Result<(), WorldError>;
}

pub async fn reconcile(world: &dyn DeploymentWorld, name: &str) -> Result<Next, WorldError> {
    let Some(object) = world.deployment(name).await? else { return Ok(Next::AwaitChange) };
    let plan = plan(&object.spec, &object.sets);
    let nothing = plan.create.is_none() && plan.change.is_empty() && plan.remove.is_empty();
    if !nothing || object.progress != Some(plan.progress) {
        world.commit(name, object.version, &plan).await?;
    }
    Ok(Next::AwaitChange)
}

//! One set: creates and deletes machines as planned.
use super::{Next, WorldError};
use crate::plan::set::{MachineView, SetPlan, SetSpec, plan};

#[derive(Clone, Debug)]
pub struct SetObject {
    /// What the plan is made from; handed back with the plan.
    pub version: u64,
    pub spec: SetSpec,
    pub machines: Vec<MachineView>,
}

#[async_trait::async_trait]
pub trait SetWorld: Send + Sync {
    async fn set(&self, name: &str) -> Result<Option<SetObject>, WorldError>;

    /// Touches the set, which holds only if it has this version and gives it a new one; then creates and
    /// deletes machines.
    async fn commit(&self, name: &str, version: u64, plan: &SetPlan) -> Result<(), WorldError>;
}

pub async fn reconcile(world: &dyn SetWorld, name: &str) -> Result<Next, WorldError> {
    let Some(object) = world.set(name).await? else { return Ok(Next::AwaitChange) };
    let plan = plan(&object.spec, &object.machines);
    if plan.create == 0 && plan.delete.is_empty() {
        return Ok(Next::AwaitChange);
    }
    world.commit(name, object.version, &plan).await?;
    Ok(Next::Now)
}

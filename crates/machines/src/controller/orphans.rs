//! Looks at each provider for machines that nobody owns.
use super::{Clock, Next, Provider, WorldError};
use crate::drivers::{Call, Found, MachineArgs, Target};
use crate::plan::orphans::{Known, plan};
use crate::plan::{Reason, Time};
use std::collections::HashMap;
use std::time::Duration;

/// Between two looks. A list of all machines is dear at some providers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// Longer than a create can take, with its resolving by list.
const GRACE: Duration = Duration::from_secs(3600);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);

#[async_trait::async_trait]
pub trait OrphanWorld: Send + Sync {
    /// Read after the list was made, so that whatever the list shows is known by then.
    async fn known(&self) -> Result<Known, WorldError>;

    /// Whether anything that could own these machines is frozen.
    async fn frozen(&self, target: &Target) -> Result<bool, WorldError>;

    /// Tells people, at the class.
    async fn tell(&self, target: &Target, reason: &Reason) -> Result<(), WorldError>;
}

/// What is remembered from one look to the next, by class. In memory: after a restart the grace
/// begins anew.
pub type Seen = HashMap<String, HashMap<String, Time>>;

/// One look at the machines of one class.
pub async fn sweep(
    world: &dyn OrphanWorld,
    provider: &dyn Provider,
    clock: &dyn Clock,
    target: &Target,
    seen: &mut Seen,
) -> Result<Next, WorldError> {
    let call = Call::within(OPERATION_TIMEOUT);
    let listed = match provider.list(target, &MachineArgs::default(), &call).await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::debug!(class = target.class, %error, "cannot look for orphans now");
            return Ok(Next::After(SWEEP_INTERVAL));
        }
    };
    let known = world.known().await?;
    let frozen = world.frozen(target).await?;
    let before = seen.entry(target.class.clone()).or_default();
    let plan = plan(clock.now(), &listed, &known, before, GRACE, frozen);
    *before = plan.seen;
    for (orphan, reason) in plan.delete {
        world.tell(target, &reason).await?;
        delete(provider, target, orphan, &call).await;
    }
    Ok(Next::After(SWEEP_INTERVAL))
}

/// One that cannot be deleted now is still there at the next look.
async fn delete(provider: &dyn Provider, target: &Target, orphan: Found, call: &Call) {
    let id = orphan.provider_id.clone();
    let args = MachineArgs { id: orphan.provider_id, name: orphan.name, ..Default::default() };
    if let Err(error) = provider.delete(target, &args, call).await {
        tracing::warn!(class = target.class, id, %error, "cannot delete an orphan");
    }
}

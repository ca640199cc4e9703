//! Looks at each provider for machines that nobody owns.
use super::{Clock, Next, Provider, WorldError};
use crate::drivers::{Call, Found, MachineArgs, OpError, Retry, Target};
use crate::plan::orphans::{Known, plan};
use crate::plan::{Reason, Time};
use std::collections::HashMap;
use std::time::Duration;

/// Between two looks at the most. A list of all machines is dear at some providers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);
/// Before the first look at the most. Machines whose create was lost in a crash are resolved by then.
const FIRST_LOOK: Duration = Duration::from_secs(60);
/// Longer than a create can take, with its resolving by list.
const GRACE: Duration = Duration::from_secs(3600);
/// Looks within the grace at the least.
const LOOKS: u32 = 6;
const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);

/// When orphans are looked for, and when they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanTiming {
    pub first_look: Duration,
    pub interval: Duration,
    /// How long nobody has known one before it goes.
    pub grace: Duration,
}

impl OrphanTiming {
    pub fn after(grace: Duration) -> Self {
        let often = grace / LOOKS;
        Self { first_look: often.min(FIRST_LOOK), interval: often.min(SWEEP_INTERVAL), grace }
    }
}

impl Default for OrphanTiming {
    fn default() -> Self {
        Self::after(GRACE)
    }
}

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
    timing: &OrphanTiming,
    seen: &mut Seen,
) -> Result<Next, WorldError> {
    let call = Call::within(OPERATION_TIMEOUT);
    let listed = match provider.list(target, &MachineArgs::default(), &call).await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::debug!(class = target.class, %error, "cannot look for orphans now");
            if let Some(reason) = refusal(&error) {
                world.tell(target, &reason).await?;
            }
            return Ok(Next::After(timing.interval));
        }
    };
    let known = world.known().await?;
    let frozen = world.frozen(target).await?;
    let before = seen.entry(target.class.clone()).or_default();
    let plan = plan(clock.now(), &listed, &known, before, timing.grace, frozen);
    *before = plan.seen;
    for (orphan, reason) in plan.delete {
        world.tell(target, &reason).await?;
        delete(provider, target, orphan, &call).await;
    }
    Ok(Next::After(timing.interval))
}

/// What its driver says against the class, or its secret: nobody else would say it before there is a machine.
fn refusal(error: &OpError) -> Option<Reason> {
    let refused = matches!(error, OpError::Refused { .. }) && error.retry() == Retry::AfterChange;
    refused.then(|| Reason::new("Refused", format!("its machines cannot be listed: {error}")))
}

/// One that cannot be deleted now is still there at the next look.
async fn delete(provider: &dyn Provider, target: &Target, orphan: Found, call: &Call) {
    let id = orphan.provider_id.clone();
    let args = MachineArgs { id: orphan.provider_id, name: orphan.name, ..Default::default() };
    if let Err(error) = provider.delete(target, &args, call).await {
        tracing::warn!(class = target.class, id, %error, "cannot delete an orphan");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::ErrorCode;

    #[test]
    fn what_a_driver_says_against_a_class_is_told() {
        #[track_caller]
        fn check(code: ErrorCode, told: Option<&str>) {
            let message = "unknown field amii".to_owned();
            let (retry_after, last_known_state) = (None, String::new());
            let error = OpError::Refused { code, message, retry_after, last_known_state };
            let reason = refusal(&error);
            assert_eq!(reason.as_ref().map(|it| it.code), told, "{reason:?}");
            assert!(reason.is_none_or(|it| it.message.contains("unknown field amii")));
        }
        check(ErrorCode::InvalidArgument, Some("Refused"));
        check(ErrorCode::Unauthenticated, Some("Refused"));
        check(ErrorCode::Unavailable, None);
        check(ErrorCode::ResourceExhausted, None);
    }
}

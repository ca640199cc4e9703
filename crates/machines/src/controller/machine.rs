//! One machine: decides, says so, does it, and takes in the outcome.
use super::{Clock, Next, Provider, WorldError};
use crate::drivers::{Call, DriverKey, Found, MachineArgs, OpKind, SecretRef, Target};
use crate::plan::machine::{
    Act, Decision, NodeHealth, Observed, Outcome, Phase, Record, Wanted, decide, settle,
};
use crate::plan::{Reason, Time, elapsed};
use std::time::Duration;

/// How long a driver has for one operation. Creating at a slow provider takes minutes; what takes
/// longer is resolved by listing.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(600);

/// A machine as it is in the store and in the fleet.
#[derive(Clone, Debug)]
pub struct MachineObject {
    pub wanted: Wanted,
    /// `None` for a machine that nobody has looked at yet.
    pub record: Option<Record>,
    /// Of the record, not of the whole object: what people change meanwhile is no conflict.
    pub record_version: u64,
    pub node: NodeHealth,
    pub drained: bool,
    pub target: Target,
    /// Stays the same for the life of the machine, and is never used again.
    pub uid: String,
    /// The secret of this one machine.
    pub bootstrap: Option<SecretRef>,
    pub trace_parent: String,
}

#[async_trait::async_trait]
pub trait MachineWorld: Send + Sync {
    async fn machine(&self, name: &str) -> Result<Option<MachineObject>, WorldError>;

    /// Writes the record if it still has this version, and the reasons as events. Returns the new
    /// version.
    async fn write_record(
        &self,
        name: &str,
        version: u64,
        record: &Record,
        reasons: &[Reason],
    ) -> Result<u64, WorldError>;

    /// Asks the fleet to move workloads off; asking again changes nothing.
    async fn drain(&self, name: &str) -> Result<(), WorldError>;

    /// Nothing is left at the provider: the object may go.
    async fn forget(&self, name: &str) -> Result<(), WorldError>;

    /// Completes when the deletion of the machine has been asked for.
    async fn deletion_asked(&self, name: &str);

    /// Nobody makes machines of this kind at the moment: says so, and what to do about one that is going.
    /// The machine is looked at again when a driver has registered.
    async fn no_driver(&self, name: &str, key: &DriverKey, going: bool) -> Result<(), WorldError>;
}

/// Takes one machine one step further.
pub async fn reconcile(
    world: &dyn MachineWorld,
    provider: &dyn Provider,
    clock: &dyn Clock,
    name: &str,
) -> Result<Next, WorldError> {
    let Some(object) = world.machine(name).await? else { return Ok(Next::AwaitChange) };
    let now = clock.now();
    let before = object.record.clone();
    let record = before.clone().unwrap_or_else(|| Record::new(now));
    // An operation runs within this function, so none can be under way when it begins.
    let observed = Observed { node: object.node, drained: object.drained, in_flight: None };
    let decision = decide(now, &object.wanted, &record, &observed);
    let asks = matches!(decision.act, Act::Create | Act::Delete | Act::Resolve);
    if asks && !provider.serves(&object.target.key) {
        // Nothing is begun, so nothing is written: the time of its creation has not begun either.
        if object.wanted.delete && record.phase != Phase::Terminating {
            let mut going = record.clone();
            going.terminate(now);
            let why = Reason::new("Deleting", "its deletion was asked for");
            world.write_record(name, object.record_version, &going, &[why]).await?;
        }
        world.no_driver(name, &object.target.key, object.wanted.delete).await?;
        return Ok(Next::AwaitChange);
    }
    let mut version = object.record_version;
    if before.as_ref() != Some(&decision.record) {
        let (record, reasons) = (&decision.record, &decision.reasons);
        version = world.write_record(name, version, record, reasons).await?;
    }
    let kind = match decision.act {
        Act::Nothing | Act::Abort => return Ok(wait(now, &decision)),
        Act::Drain => {
            world.drain(name).await?;
            return Ok(wait(now, &decision));
        }
        Act::Forget => {
            world.forget(name).await?;
            return Ok(Next::AwaitChange);
        }
        Act::Create => OpKind::Create,
        Act::Delete => OpKind::Delete,
        Act::Resolve => OpKind::List,
    };
    let Some(outcome) = operate(world, provider, kind, name, &object, &decision.record).await
    else {
        return Ok(Next::Now);
    };
    let revision = object.wanted.revision;
    let (record, reason) = settle(clock.now(), &decision.record, revision, outcome);
    world.write_record(name, version, &record, &[reason]).await?;
    Ok(Next::Now)
}

fn wait(now: Time, decision: &Decision) -> Next {
    decision.wake.map_or(Next::AwaitChange, |at| Next::After(elapsed(at, now)))
}

/// Does one operation. `None` if a create was dropped because the machine is to be deleted: its
/// outcome is then open, as the record says.
async fn operate(
    world: &dyn MachineWorld,
    provider: &dyn Provider,
    kind: OpKind,
    name: &str,
    object: &MachineObject,
    record: &Record,
) -> Option<Outcome> {
    let args = MachineArgs {
        id: record.provider_id.clone().unwrap_or_default(),
        name: name.to_owned(),
        last_known_state: record.last_known_state.clone(),
        bootstrap: object.bootstrap.clone(),
    };
    let call = Call {
        timeout: OPERATION_TIMEOUT,
        idempotency_key: object.uid.clone(),
        trace_parent: object.trace_parent.clone(),
    };
    let target = &object.target;
    let failed = |error| Outcome::Failed(kind, error);
    match kind {
        OpKind::Create => tokio::select! {
            made = provider.create(target, &args, &call) => {
                Some(made.map_or_else(failed, Outcome::Created))
            }
            () = world.deletion_asked(name), if !object.wanted.delete => None,
        },
        OpKind::Delete => {
            let deleted = provider.delete(target, &args, &call).await;
            Some(deleted.map_or_else(failed, |()| Outcome::Deleted))
        }
        OpKind::List | OpKind::Status => {
            // Without an id: what is looked for is a machine whose id may never have been told.
            let all = MachineArgs { id: String::new(), ..args };
            let listed = provider.list(target, &all, &call).await;
            let found =
                |all: Vec<Found>| all.into_iter().find(|it| is_it(it, name, object, record));
            Some(listed.map_or_else(failed, |all| Outcome::Resolved(found(all))))
        }
    }
}

/// Whether what the provider has is this machine: by id, by key, or, from a driver that knows no
/// keys, by name.
fn is_it(found: &Found, name: &str, object: &MachineObject, record: &Record) -> bool {
    record.provider_id.as_ref() == Some(&found.provider_id)
        || (found.idempotency_key == object.uid)
        || (found.idempotency_key.is_empty() && found.name == name)
}

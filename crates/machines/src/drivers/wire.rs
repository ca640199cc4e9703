//! Between our words and the wire's.
use super::error::OpKind;
use super::registry::Hello;
use super::source::{DriverKey, SecretRef};
use orrery_proto::infragrpc as pb;
use pb::driver_side::{self, Response};
use pb::mc_mside::OperationParams;
use std::time::Duration;

/// The protocol that this server speaks; the first contract is 0.
pub const PROTOCOL_VERSION: i32 = 1;
/// A driver with this capability answers `status`.
pub const CAPABILITY_STATUS: &str = "status";
/// A driver with this capability stops working on an operation when told to.
pub const CAPABILITY_CANCEL: &str = "cancel";
/// However many a driver offers: bounds the memory that one driver can make us hold.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Names longer than this are not names.
pub(super) const TEXT_BYTES_MAX: usize = 256;
/// More than there are, and than there will be soon.
const CAPABILITIES_MAX: usize = 64;

/// The class that an operation is about, and so the driver that does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub key: DriverKey,
    /// The REST path of the class.
    pub class: String,
    pub class_revision: i64,
}

/// The machine that an operation is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineArgs {
    /// The provider's id; for create, what the caller suggests.
    pub id: String,
    pub name: String,
    /// What the driver said last time.
    pub last_known_state: String,
    /// The secret of this one machine.
    pub bootstrap: Option<SecretRef>,
}

/// How an operation is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// From the call to the answer, waiting for a free place included.
    pub timeout: Duration,
    /// The same for every attempt at the same operation.
    pub idempotency_key: String,
    pub trace_parent: String,
}

impl Call {
    pub fn within(timeout: Duration) -> Self {
        Self { timeout, idempotency_key: String::new(), trace_parent: String::new() }
    }
}

/// A machine that a driver made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created {
    pub provider_id: String,
    pub node_name: String,
    pub addresses: Vec<String>,
    pub last_known_state: String,
    /// It was there already.
    pub adopted: bool,
}

/// A machine that a driver found at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub provider_id: String,
    pub name: String,
    pub addresses: Vec<String>,
    /// The provider's word: "pending", "running", "stopping", "stopped", or empty.
    pub state: String,
    pub idempotency_key: String,
}

pub(super) fn register(token: &str, heartbeat: Duration) -> pb::McMside {
    pb::McMside {
        operation_id: super::pending::REGISTER_ID,
        operation_type: "register".into(),
        protocol_version: PROTOCOL_VERSION,
        session_token: token.into(),
        heartbeat_interval_ms: millis(heartbeat),
        ..Default::default()
    }
}

pub(super) fn heartbeat() -> pb::McMside {
    pb::McMside { operation_type: "heartbeat".into(), ..Default::default() }
}

pub(super) fn cancel(id: i32) -> pb::McMside {
    pb::McMside { operation_id: id, operation_type: "cancel".into(), ..Default::default() }
}

pub(super) fn changed(change: pb::mc_mside::Change) -> pb::McMside {
    pb::McMside { operation_type: "changed".into(), changes: vec![change], ..Default::default() }
}

/// The message of an operation. Its id and the time that is left are filled in when it is sent.
pub(super) fn operation(
    kind: OpKind,
    target: &Target,
    machine: &MachineArgs,
    call: &Call,
) -> pb::McMside {
    let bootstrap = machine.bootstrap.as_ref().map(secret_meta);
    pb::McMside {
        operation_type: kind.name().into(),
        operationparams: Some(OperationParams {
            machine_class_meta_data: Some(class_meta(&target.class, target.class_revision)),
            credentials: String::new(),
            machine_id: machine.id.clone(),
            machine_name: machine.name.clone(),
            last_known_state: machine.last_known_state.clone(),
            bootstrap_secret: bootstrap,
        }),
        idempotency_key: call.idempotency_key.clone(),
        trace_parent: call.trace_parent.clone(),
        ..Default::default()
    }
}

pub(super) fn class_meta(path: &str, revision: i64) -> pb::MachineClassMeta {
    pb::MachineClassMeta { name: path.into(), revision: narrow(revision) }
}

pub(super) fn secret_meta(secret: &SecretRef) -> pb::SecretMeta {
    pb::SecretMeta {
        secret_name: secret.name.clone(),
        name_space: secret.project.clone(),
        revision: 0,
    }
}

/// The wire has 32 bits for a revision. What does not fit is cut to its low bits: a revision is
/// only ever compared for being the same.
pub(crate) fn narrow(revision: i64) -> i32 {
    (revision & i64::from(i32::MAX)) as i32
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// What a driver says of itself, or why that will not do.
pub(super) fn hello(message: pb::DriverSide) -> Result<Hello, String> {
    let Some(Response::RegisterResp(said)) = message.response else {
        return Err("the first message of a driver must be its registration".into());
    };
    if said.kind.is_empty() || said.version.is_empty() {
        return Err("a driver registers with the kind and the version of its classes".into());
    }
    check_sizes(&said)?;
    let api_version = if said.group.is_empty() {
        said.version
    } else {
        format!("{}/{}", said.group, said.version)
    };
    Ok(Hello {
        max_concurrent: concurrency(said.protocol_version, said.max_concurrent),
        key: DriverKey { kind: said.kind, api_version },
        name: said.name,
        protocol: said.protocol_version.clamp(0, PROTOCOL_VERSION),
        capabilities: said.capabilities,
        instance: said.instance_id,
        program_version: said.program_version,
    })
}

fn check_sizes(said: &driver_side::RegisterationResp) -> Result<(), String> {
    let texts = [
        &said.name,
        &said.kind,
        &said.group,
        &said.version,
        &said.instance_id,
        &said.program_version,
    ];
    if texts.into_iter().chain(&said.capabilities).any(|text| text.len() > TEXT_BYTES_MAX) {
        return Err(format!("a name in a registration is longer than {TEXT_BYTES_MAX} bytes"));
    }
    if said.capabilities.len() > CAPABILITIES_MAX {
        return Err(format!("a registration has more than {CAPABILITIES_MAX} capabilities"));
    }
    Ok(())
}

/// An old driver does one operation at a time, in order; what is sent ahead only grows old there.
fn concurrency(protocol: i32, offered: i32) -> usize {
    if protocol < 1 {
        return 1;
    }
    usize::try_from(offered).unwrap_or(1).clamp(1, IN_FLIGHT_MAX)
}

/// What an answer is, for the error that says that it is the wrong one.
pub(super) fn answer_name(response: Option<&Response>) -> &'static str {
    match response {
        None => "nothing",
        Some(Response::RegisterResp(_)) => "a registration",
        Some(Response::Createresponse(_)) => "an answer to create",
        Some(Response::Deleteresponse(_)) => "an answer to delete",
        Some(Response::Listresponse(_)) => "an answer to list",
        Some(Response::Statusresponse(_)) => "an answer to status",
        Some(Response::Heartbeat(_)) => "a heartbeat",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_checked() {
        let mk = |kind: &str, group: &str, version: &str| pb::DriverSide {
            response: Some(Response::RegisterResp(driver_side::RegisterationResp {
                kind: kind.into(),
                group: group.into(),
                version: version.into(),
                ..Default::default()
            })),
            ..Default::default()
        };
        let old = hello(mk("AWSMachineClass", "machine.example", "v1alpha1")).expect("registers");
        assert_eq!(old.key, DriverKey::new("AWSMachineClass", "machine.example/v1alpha1"));
        assert_eq!((old.protocol, old.max_concurrent), (0, 1));
        assert!(hello(mk("", "g", "v1")).is_err());
        assert!(hello(mk("K", "g", "")).is_err());
        assert!(hello(mk(&"K".repeat(300), "g", "v1")).is_err());
        assert!(hello(pb::DriverSide::default()).is_err());
    }

    #[test]
    fn concurrency_is_bounded_and_one_for_old_drivers() {
        assert_eq!(concurrency(0, 50), 1);
        assert_eq!(concurrency(1, 50), 50);
        assert_eq!(concurrency(1, -5), 1);
        assert_eq!(concurrency(1, i32::MAX), IN_FLIGHT_MAX);
    }
}

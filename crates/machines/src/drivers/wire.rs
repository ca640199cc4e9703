//! Between our words and the wire's.
use super::error::{ErrorCode, OpError, OpKind};
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
const TEXT_BYTES_MAX: usize = 256;
/// More than there are, and than there will be soon.
const CAPABILITIES_MAX: usize = 64;
/// An error is shown to people and kept in a status; what is longer is cut.
const MESSAGE_CHARS_MAX: usize = 2048;

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

/// An error as drivers say it; `code` is 0 when there is none, or when the driver is an old one.
fn refused(error: String, code: i32, retry_ms: i64, state: String) -> Result<(), OpError> {
    let code = ErrorCode::try_from(code).unwrap_or(ErrorCode::Unknown);
    if error.is_empty() && code == ErrorCode::Ok {
        return Ok(());
    }
    let code = if code == ErrorCode::Ok { ErrorCode::Unknown } else { code };
    let message = match error.chars().take(MESSAGE_CHARS_MAX).collect::<String>() {
        empty if empty.is_empty() => "the driver gave no reason".into(),
        message => message,
    };
    let retry_after = u64::try_from(retry_ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
    Err(OpError::Refused { code, message, retry_after, last_known_state: state })
}

/// The readers of answers: `None` if the answer is of another type.
pub(super) fn created(response: Response) -> Option<Result<Created, OpError>> {
    let Response::Createresponse(said) = response else { return None };
    Some(read_created(said))
}

fn read_created(said: driver_side::CreateResp) -> Result<Created, OpError> {
    refused(said.error, said.code, said.retry_after_ms, said.last_known_state.clone())?;
    Ok(Created {
        provider_id: said.provider_id,
        node_name: said.nodename,
        addresses: said.addresses,
        last_known_state: said.last_known_state,
        adopted: said.adopted,
    })
}

pub(super) fn deleted(response: Response) -> Option<Result<(), OpError>> {
    let Response::Deleteresponse(said) = response else { return None };
    Some(read_deleted(said))
}

/// A machine that is not there is deleted.
fn read_deleted(said: driver_side::DeleteResp) -> Result<(), OpError> {
    if said.code == i32::from(ErrorCode::NotFound) {
        return Ok(());
    }
    refused(said.error, said.code, said.retry_after_ms, said.last_known_state)
}

pub(super) fn listed(response: Response) -> Option<Result<Vec<Found>, OpError>> {
    let Response::Listresponse(said) = response else { return None };
    Some(read_listed(said))
}

fn read_listed(said: driver_side::ListResp) -> Result<Vec<Found>, OpError> {
    refused(said.error, said.code, said.retry_after_ms, String::new())?;
    Ok(said.list.into_iter().map(found).collect())
}

pub(super) fn status(response: Response) -> Option<Result<Option<Found>, OpError>> {
    let Response::Statusresponse(said) = response else { return None };
    Some(read_status(said))
}

/// `Ok(None)` if there is no such machine.
fn read_status(said: driver_side::StatusResp) -> Result<Option<Found>, OpError> {
    if said.code == i32::from(ErrorCode::NotFound) {
        return Ok(None);
    }
    refused(said.error, said.code, said.retry_after_ms, String::new())?;
    Ok(said.machine.map(found))
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

fn found(machine: driver_side::Machine) -> Found {
    Found {
        provider_id: machine.machine_id,
        name: machine.machine_name,
        addresses: machine.addresses,
        state: machine.state,
        idempotency_key: machine.idempotency_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &str, code: i32, expect: Option<ErrorCode>) {
        let found = refused(error.into(), code, 0, String::new());
        assert_eq!(found.err().map(|error| error.code()), expect, "{error:?} {code}");
    }

    /// Defect 8: errors were bare strings; those of old drivers still are.
    #[test]
    fn an_error_has_a_code() {
        check("", 0, None);
        check("boom", 0, Some(ErrorCode::Unknown));
        check("boom", 8, Some(ErrorCode::ResourceExhausted));
        check("", 3, Some(ErrorCode::InvalidArgument));
        check("boom", 99, Some(ErrorCode::Unknown));
        let long = refused("é".repeat(1 << 20), 0, 0, String::new()).expect_err("an error");
        assert!(long.to_string().chars().count() < MESSAGE_CHARS_MAX + 20);
    }

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

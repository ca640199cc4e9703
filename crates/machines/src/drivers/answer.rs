//! What drivers answer, read and checked.
//!
//! What is taken in here is written into the status of a machine. An answer that the status could not
//! hold would be lost after its operation was done, and the operation be repeated without end: so such
//! an answer is an error, and its operation one of which nobody knows what became of it.
use super::error::{ErrorCode, OpError};
use super::wire::{Created, Found, TEXT_BYTES_MAX};
use orrery_proto::infragrpc as pb;
use pb::driver_side::{self, Response};
use std::collections::BTreeSet;
use std::time::Duration;

/// An error is shown to people and kept in a status; what is longer is cut.
const MESSAGE_CHARS_MAX: usize = 2048;
/// Ids of providers are paths at the longest.
const ID_BYTES_MAX: usize = 4096;
/// What a driver wants to be told again. A stored object has at most 1 MiB.
const STATE_BYTES_MAX: usize = 256 << 10;
/// More than a machine has; further ones are left out.
const ADDRESSES_MAX: usize = 64;

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
    let last_known_state = if state.len() > STATE_BYTES_MAX { String::new() } else { state };
    Err(OpError::Refused { code, message, retry_after, last_known_state })
}

/// The readers of answers: `None` if the answer is of another type.
pub(super) fn created(response: Response) -> Option<Result<Created, OpError>> {
    let Response::Createresponse(said) = response else { return None };
    Some(read_created(said))
}

fn read_created(said: driver_side::CreateResp) -> Result<Created, OpError> {
    refused(said.error, said.code, said.retry_after_ms, said.last_known_state.clone())?;
    if said.provider_id.is_empty() {
        return Err(unusable("the driver says that the machine is created, and not its id"));
    }
    check_id(&said.provider_id)?;
    if said.last_known_state.len() > STATE_BYTES_MAX {
        let message =
            format!("the driver answered with a state of more than {STATE_BYTES_MAX} bytes");
        return Err(unusable(&message));
    }
    let node_name = Some(said.nodename).filter(|name| name.len() <= TEXT_BYTES_MAX);
    Ok(Created {
        provider_id: said.provider_id,
        node_name: node_name.unwrap_or_default(),
        addresses: addresses(said.addresses),
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
    // One without an id is none that anything could be done with.
    let machines = said.list.into_iter().filter(|machine| !machine.machine_id.is_empty());
    machines.map(found).collect()
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
    said.machine.map(found).transpose()
}

/// An answer that is of no use: whether the operation was done is not known.
fn unusable(message: &str) -> OpError {
    OpError::Refused {
        code: ErrorCode::Internal,
        message: message.to_owned(),
        retry_after: None,
        last_known_state: String::new(),
    }
}

fn check_id(id: &str) -> Result<(), OpError> {
    if id.len() <= ID_BYTES_MAX {
        return Ok(());
    }
    Err(unusable(&format!("the driver answered with an id of more than {ID_BYTES_MAX} bytes")))
}

/// Each once and in their order, without those that are none.
fn addresses(said: Vec<String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    let possible = |address: &String| (1..=TEXT_BYTES_MAX).contains(&address.len());
    let fresh = said.into_iter().filter(possible).filter(|one| known.insert(one.clone()));
    fresh.take(ADDRESSES_MAX).collect()
}

fn found(machine: driver_side::Machine) -> Result<Found, OpError> {
    check_id(&machine.machine_id)?;
    Ok(Found {
        provider_id: machine.machine_id,
        name: machine.machine_name,
        addresses: addresses(machine.addresses),
        state: machine.state,
        idempotency_key: machine.idempotency_key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::Effect;

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

    fn made(change: impl FnOnce(&mut driver_side::CreateResp)) -> Result<Created, OpError> {
        let mut answer =
            driver_side::CreateResp { provider_id: "i-1".into(), ..Default::default() };
        change(&mut answer);
        created(Response::Createresponse(answer)).expect("it is an answer to create")
    }

    /// An answer that the status of a machine could not hold made the same machine be created for
    /// ever, as fast as the driver answered.
    /// proves: MCH-07
    #[test]
    fn an_answer_that_cannot_be_kept_is_an_error() {
        type Change = fn(&mut driver_side::CreateResp);
        let bad: [Change; 3] = [
            |answer| answer.provider_id.clear(),
            |answer| answer.provider_id = "i".repeat(2_000_000),
            |answer| answer.last_known_state = "s".repeat(900_000),
        ];
        for change in bad {
            let error = made(change).expect_err("it is of no use");
            assert_eq!((error.code(), error.effect()), (ErrorCode::Internal, Effect::Perhaps));
            assert!(error.to_string().len() < 200, "{error}");
        }
        let good = made(|answer| {
            answer.nodename = "n".repeat(1000);
            answer.addresses = ["10.0.0.1", "", "10.0.0.2", "10.0.0.1"].map(String::from).into();
            answer.addresses.extend((0..1000).map(|number| format!("a{number}")));
        });
        let good = good.expect("what is too much is left out");
        assert_eq!((good.node_name.as_str(), good.addresses.len()), ("", ADDRESSES_MAX));
        assert_eq!(good.addresses[..3], ["10.0.0.1", "10.0.0.2", "a0"]);
    }

    #[test]
    fn a_list_is_read_without_what_has_no_id() {
        let machine = |id: &str| driver_side::Machine { machine_id: id.into(), ..<_>::default() };
        let listed = |list| {
            let answer = driver_side::ListResp { list, ..Default::default() };
            listed(Response::Listresponse(answer)).expect("it is an answer to list")
        };
        let found = listed(vec![machine(""), machine("a")]).expect("a list");
        assert_eq!(found.iter().map(|one| one.provider_id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert!(listed(vec![machine("a"), machine(&"b".repeat(5000))]).is_err());
        let state = driver_side::CreateResp {
            error: "no".into(),
            last_known_state: "s".repeat(900_000),
            ..Default::default()
        };
        let refused = created(Response::Createresponse(state)).expect("an answer");
        let OpError::Refused { last_known_state, .. } = refused.expect_err("refused") else {
            panic!("it is a refusal");
        };
        assert_eq!(last_known_state, "");
    }
}

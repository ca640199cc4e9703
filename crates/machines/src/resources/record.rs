//! A machine's record, as its status keeps it.
use crate::drivers::{ErrorCode, OpKind};
use crate::plan::Time;
use crate::plan::machine::{LastOperation, OpState, Phase, Record, Wait};
use orrery_proto::infra::v1::{MachineOperation, MachineStatus};
use prost_types::Timestamp;

pub fn time(at: Timestamp) -> Time {
    Time::new(at.seconds, at.nanos).unwrap_or(Time::MIN)
}

pub fn timestamp(at: Time) -> Timestamp {
    Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }
}

/// The record in a status; `None` where none was written yet.
pub fn read(status: &MachineStatus) -> Option<Record> {
    if status.sequence == 0 {
        return None;
    }
    let wait = match (status.next_attempt, status.waits_for_change_of) {
        (_, Some(revision)) => Wait::Change(revision),
        (Some(at), None) => Wait::Until(time(at)),
        (None, None) => Wait::Nothing,
    };
    let since = |at: Option<Timestamp>| at.map_or(Time::UNIX_EPOCH, time);
    Some(Record {
        phase: phase_of(&status.phase),
        phase_since: since(status.phase_since),
        creation_since: since(status.creation_since),
        provider_id: Some(status.provider_id.clone()).filter(|id| !id.is_empty()),
        node_name: status.node_name.clone(),
        addresses: status.addresses.clone(),
        last_known_state: status.last_known_state.clone(),
        unresolved: status.unresolved,
        started: status.started,
        joined: status.joined,
        failures: u32::try_from(status.failures).unwrap_or_default(),
        wait,
        drain_since: status.drain_since.map(time),
        drained: status.drained,
        last_operation: status.last_operation.as_ref().and_then(read_operation),
    })
}

/// The status after a record; what the record does not speak of stays.
pub fn write(record: &Record, before: MachineStatus) -> MachineStatus {
    let (next_attempt, waits_for_change_of) = match record.wait {
        Wait::Nothing => (None, None),
        Wait::Until(at) => (Some(timestamp(at)), None),
        Wait::Change(revision) => (None, Some(revision)),
    };
    MachineStatus {
        phase: phase_name(record.phase).to_owned(),
        phase_since: Some(timestamp(record.phase_since)),
        creation_since: Some(timestamp(record.creation_since)),
        provider_id: record.provider_id.clone().unwrap_or_default(),
        node_name: record.node_name.clone(),
        addresses: record.addresses.clone(),
        last_known_state: record.last_known_state.clone(),
        unresolved: record.unresolved,
        started: record.started,
        joined: record.joined,
        failures: i32::try_from(record.failures).unwrap_or(i32::MAX),
        next_attempt,
        waits_for_change_of,
        drain_since: record.drain_since.map(timestamp),
        drained: record.drained,
        last_operation: record.last_operation.as_ref().map(write_operation),
        sequence: before.sequence + 1,
        node: before.node,
        conditions: before.conditions,
    }
}

pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Available => "Available",
        Phase::Running => "Running",
        Phase::Unknown => "Unknown",
        Phase::Failed => "Failed",
        Phase::Terminating => "Terminating",
        Phase::CrashLoopBackOff => "CrashLoopBackOff",
    }
}

/// Only these words are ever written; without one, a machine has yet to be looked at.
pub fn phase_of(name: &str) -> Phase {
    match name {
        "Available" => Phase::Available,
        "Running" => Phase::Running,
        "Unknown" => Phase::Unknown,
        "Failed" => Phase::Failed,
        "Terminating" => Phase::Terminating,
        "CrashLoopBackOff" => Phase::CrashLoopBackOff,
        _ => Phase::Pending,
    }
}

fn write_operation(operation: &LastOperation) -> MachineOperation {
    let state = match operation.state {
        OpState::Processing => "Processing",
        OpState::Successful => "Successful",
        OpState::Failed => "Failed",
    };
    MachineOperation {
        r#type: operation.kind.name().to_owned(),
        state: state.to_owned(),
        description: operation.description.clone(),
        error_code: operation.code.map(crate::drivers::error::code_name).unwrap_or_default(),
        time: Some(timestamp(operation.at)),
    }
}

fn read_operation(operation: &MachineOperation) -> Option<LastOperation> {
    let kinds = [OpKind::Create, OpKind::Delete, OpKind::List, OpKind::Status];
    let codes = (0..=16).filter_map(|number| ErrorCode::try_from(number).ok());
    Some(LastOperation {
        kind: kinds.into_iter().find(|kind| kind.name() == operation.r#type)?,
        state: match operation.state.as_str() {
            "Successful" => OpState::Successful,
            "Failed" => OpState::Failed,
            _ => OpState::Processing,
        },
        description: operation.description.clone(),
        code: codes
            .filter(|code| *code != ErrorCode::Ok)
            .find(|code| crate::drivers::error::code_name(*code) == operation.error_code),
        at: operation.time.map_or(Time::UNIX_EPOCH, time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at() -> impl Strategy<Value = Time> {
        (0i64..4_000_000_000).prop_map(|second| Time::from_second(second).expect("in range"))
    }

    fn waits() -> impl Strategy<Value = Wait> {
        prop_oneof![
            Just(Wait::Nothing),
            at().prop_map(Wait::Until),
            any::<i64>().prop_map(Wait::Change)
        ]
    }

    prop_compose! {
        fn operations()(kind in 0..4usize, state in 0..3usize, code in 1..17i32, at in at())
            -> LastOperation {
            LastOperation {
                kind: [OpKind::Create, OpKind::Delete, OpKind::List, OpKind::Status][kind],
                state: [OpState::Processing, OpState::Successful, OpState::Failed][state],
                description: "said".into(),
                code: ErrorCode::try_from(code).ok(),
                at,
            }
        }
    }

    prop_compose! {
        fn records()(
            phase in 0..7usize, times in (at(), at(), proptest::option::of(at())), wait in waits(),
            flags in any::<[bool; 4]>(), failures in 0u32..1000, id in proptest::option::of("[a-z]+"),
            last_operation in proptest::option::of(operations()),
        ) -> Record {
            let phases = [Phase::Pending, Phase::Available, Phase::Running, Phase::Unknown,
                Phase::Failed, Phase::Terminating, Phase::CrashLoopBackOff];
            let [unresolved, started, joined, drained] = flags;
            Record {
                phase: phases[phase], phase_since: times.0, creation_since: times.1,
                provider_id: id, node_name: "n".into(), addresses: vec!["10.0.0.1".into()],
                last_known_state: String::new(), unresolved, started, joined, failures, wait,
                drain_since: times.2, drained, last_operation,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(record in records()) {
            let status = write(&record, MachineStatus::default());
            prop_assert_eq!(read(&status), Some(record));
        }
    }

    #[test]
    fn nobody_has_looked_at_a_machine_without_a_record() {
        assert_eq!(read(&MachineStatus::default()), None);
    }
}

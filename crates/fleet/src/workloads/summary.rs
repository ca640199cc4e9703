//! The state of a workload as the sum of its copies: pure.
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceStatus, WorkloadStatus};
use orrery_proto::meta::v1::Condition;
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// Sums up. The worst copy speaks for the whole, except that what is stopping is stopping.
pub fn summarize(
    workload: &Workload,
    instances: &[WorkloadInstance],
    now: Timestamp,
) -> WorkloadStatus {
    let deleting = workload.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some());
    let spec = workload.spec.as_ref();
    let placed = spec.and_then(|spec| spec.placement.as_ref()).map_or(0, |p| p.nodes.len());
    let desired = if deleting { 0 } else { placed };
    let statuses: Vec<&WorkloadInstanceStatus> =
        instances.iter().filter_map(|instance| instance.status.as_ref()).collect();
    let running = statuses.iter().filter(|status| status.state == "Running").count();
    let speaker = statuses.iter().max_by_key(|status| weight(status));
    let state = match speaker {
        _ if deleting => "Stopping",
        None => "Pending",
        Some(_) if statuses.len() < desired => "Pending",
        Some(speaker) if is_unknown(speaker) => "Unknown",
        Some(speaker) => speaker.state.as_str(),
    };
    let generation = workload.metadata.as_ref().map_or(0, |meta| meta.generation);
    let mut status = WorkloadStatus {
        state: state.to_owned(),
        reason: speaker.map_or_else(String::new, |status| status.reason.clone()),
        message: speaker.map_or_else(String::new, |status| status.message.clone()),
        desired: count(desired),
        running: count(running),
        restarts: statuses.iter().map(|status| status.restarts).sum(),
        observed_generation: generation,
        conditions: workload.status.clone().unwrap_or_default().conditions,
    };
    let ready = ready(&status, instances, generation);
    conditions::set(&mut status.conditions, ready, now);
    status
}

/// Ready means: every copy that is asked for runs what is asked for, or has done its work.
fn ready(status: &WorkloadStatus, instances: &[WorkloadInstance], generation: i64) -> Condition {
    let current = |instance: &&WorkloadInstance| {
        let generation = instance.metadata.as_ref().map_or(0, |meta| meta.generation);
        instance.status.as_ref().is_some_and(|status| {
            status.observed_generation == generation
                && matches!(status.state.as_str(), "Running" | "Succeeded")
        })
    };
    let good = count(instances.iter().filter(current).count());
    let ready = status.state != "Stopping" && good == status.desired;
    Condition {
        r#type: "Ready".into(),
        status: if ready { "True" } else { "False" }.into(),
        reason: status.state.clone(),
        message: format!("{good} of {} copies are as asked for", status.desired),
        observed_generation: generation,
        last_transition_time: None,
    }
}

/// How much a state matters for the whole.
fn weight(status: &WorkloadInstanceStatus) -> u8 {
    match status.state.as_str() {
        "Failed" if !is_unknown(status) => 6,
        "Failed" => 5,
        "Pending" | "NotScheduled" => 4,
        "Stopping" => 3,
        "Running" => 2,
        "Succeeded" => 1,
        _ => 0,
    }
}

fn is_unknown(status: &WorkloadInstanceStatus) -> bool {
    status.state == "Failed" && status.reason == "Unknown"
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{Placement, WorkloadSpec};

    fn mk_instance(state: &str, reason: &str) -> WorkloadInstance {
        let status = WorkloadInstanceStatus {
            state: state.into(),
            reason: reason.into(),
            restarts: 2,
            ..WorkloadInstanceStatus::default()
        };
        WorkloadInstance { status: Some(status), ..WorkloadInstance::default() }
    }

    #[track_caller]
    fn check(placed: usize, instances: &[(&str, &str)], expect: (&str, i32), ready: bool) {
        let placement = Placement { nodes: (0..placed).map(|n| n.to_string()).collect() };
        let spec = WorkloadSpec { placement: Some(placement), ..WorkloadSpec::default() };
        let workload = Workload { spec: Some(spec), ..Workload::default() };
        let instances: Vec<_> = instances.iter().map(|(s, r)| mk_instance(s, r)).collect();
        let status = summarize(&workload, &instances, Timestamp::default());
        assert_eq!((status.state.as_str(), status.running), expect);
        assert_eq!(status.conditions[0].status == "True", ready);
        assert_eq!(usize::try_from(status.restarts), Ok(instances.len() * 2));
    }

    #[test]
    fn the_worst_copy_speaks_for_the_whole() {
        check(1, &[], ("Pending", 0), false);
        check(1, &[("Running", "")], ("Running", 1), true);
        check(2, &[("Running", "")], ("Pending", 1), false);
        check(2, &[("Running", ""), ("Pending", "Starting")], ("Pending", 1), false);
        check(2, &[("Running", ""), ("Failed", "ExecFailed")], ("Failed", 1), false);
        check(2, &[("Running", ""), ("Failed", "Unknown")], ("Unknown", 1), false);
        check(
            3,
            &[("Failed", "Unknown"), ("Failed", "Lost"), ("Running", "")],
            ("Failed", 1),
            false,
        );
        check(2, &[("Running", ""), ("Succeeded", "")], ("Running", 1), true);
        check(1, &[("Succeeded", "")], ("Succeeded", 0), true);
    }
}

//! The state of a workload as the sum of its copies: pure.
use super::plan::{Obstacle, Plan};
use super::rollout;
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceStatus, WorkloadStatus};
use orrery_proto::meta::v1::Condition;
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// Sums up. The worst copy speaks for the whole, except that what is stopping is stopping, and that
/// what stands in the way of the whole is said first.
pub fn summarize(
    workload: &Workload,
    instances: &[WorkloadInstance],
    plan: &Plan,
    now: Timestamp,
) -> WorkloadStatus {
    let deleting = workload.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some());
    let desired = if deleting { 0 } else { plan.desired };
    // What is on its way out says nothing about what is asked for, unless everything goes.
    let kept: Vec<&WorkloadInstance> =
        instances.iter().filter(|instance| deleting || !leaves(instance, plan)).collect();
    let statuses: Vec<&WorkloadInstanceStatus> =
        kept.iter().filter_map(|instance| instance.status.as_ref()).collect();
    let running = statuses.iter().filter(|status| status.state == "Running").count();
    let speaker = statuses.iter().max_by_key(|status| weight(status));
    let state = match speaker {
        _ if deleting => "Stopping",
        None if plan.obstacle.is_some() => "NotScheduled",
        None => "Pending",
        Some(_) if statuses.len() < desired => "Pending",
        Some(speaker) if is_unknown(speaker) => "Unknown",
        Some(speaker) => speaker.state.as_str(),
    };
    let (reason, message) = match (&plan.obstacle, speaker) {
        (Some(obstacle), _) => (reason(obstacle).to_owned(), message(obstacle)),
        (None, Some(speaker)) => (speaker.reason.clone(), speaker.message.clone()),
        (None, None) if desired == 0 && !deleting => {
            ("NoCopies".to_owned(), "no copies are asked for".to_owned())
        }
        (None, None) => (String::new(), String::new()),
    };
    let generation = workload.metadata.as_ref().map_or(0, |meta| meta.generation);
    let mut status = WorkloadStatus {
        state: state.to_owned(),
        reason,
        message,
        desired: count(desired),
        running: count(running),
        restarts: statuses.iter().map(|status| status.restarts).sum(),
        observed_generation: generation,
        conditions: workload.status.clone().unwrap_or_default().conditions,
    };
    let ready = ready(&status, &kept, plan, generation);
    conditions::set(&mut status.conditions, ready, now);
    if !deleting {
        conditions::set(&mut status.conditions, scheduled(plan, generation), now);
    }
    status
}

fn reason(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::TooFewNodes(_) => "TooFewNodes",
        Obstacle::Cycle(_) => "DependencyCycle",
        Obstacle::StoppedAfter(_) => "Waiting",
    }
}

fn message(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::TooFewNodes(why) => why.clone(),
        Obstacle::Cycle(way) => {
            format!("it waits for itself: {}; take one of these dependencies out", way.join(" -> "))
        }
        Obstacle::StoppedAfter(first) => {
            format!("stopped after workload {first:?}, which depends on it")
        }
    }
}

/// Scheduled means: every copy that is asked for has a node.
fn scheduled(plan: &Plan, generation: i64) -> Condition {
    let (status, reason, message) = match &plan.obstacle {
        Some(obstacle) => ("False", "NotScheduled", message(obstacle)),
        None => ("True", "Scheduled", "every copy has a node".to_owned()),
    };
    Condition {
        r#type: "Scheduled".into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: generation,
        last_transition_time: None,
    }
}

/// Ready means: every copy that is asked for runs what is asked for, or has done its work.
fn ready(
    status: &WorkloadStatus,
    kept: &[&WorkloadInstance],
    plan: &Plan,
    generation: i64,
) -> Condition {
    let current = |instance: &&&WorkloadInstance| {
        !plan.outdated.contains(name(instance)) && rollout::is_available(instance)
    };
    let good = count(kept.iter().filter(current).count());
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

/// Whether a copy is being stopped, or is about to be.
fn leaves(instance: &WorkloadInstance, plan: &Plan) -> bool {
    let going = instance.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some());
    going || plan.delete.iter().any(|doomed| doomed == name(instance))
}

fn name(instance: &WorkloadInstance) -> &str {
    instance.metadata.as_ref().map_or("", |meta| meta.name.as_str())
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
    use orrery_proto::meta::v1::ObjectMeta;

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
        let workload = Workload::default();
        let plan = Plan { desired: placed, ..Plan::default() };
        let instances: Vec<_> = instances.iter().map(|(s, r)| mk_instance(s, r)).collect();
        let status = summarize(&workload, &instances, &plan, Timestamp::default());
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

    /// A copy on a node that is no longer asked for does not make the workload ready.
    #[test]
    fn what_is_on_its_way_out_does_not_count() {
        let mut old = mk_instance("Running", "");
        old.metadata = Some(ObjectMeta { name: "web-old".into(), ..ObjectMeta::default() });
        let plan = Plan { desired: 1, delete: vec!["web-old".into()], ..Plan::default() };
        let workload = Workload::default();
        let status = summarize(&workload, &[old.clone()], &plan, Timestamp::default());
        assert_eq!((status.state.as_str(), status.running), ("Pending", 0));
        assert_eq!(status.conditions[0].status, "False");
        let plan = Plan { desired: 1, outdated: ["web-old".into()].into(), ..Plan::default() };
        let status = summarize(&workload, &[old], &plan, Timestamp::default());
        assert_eq!(status.conditions[0].status, "False", "it does not run what is asked for yet");
    }

    #[track_caller]
    fn check_obstacle(obstacle: Obstacle, copies: usize, expect: (&str, &str, &str)) {
        let plan = Plan { desired: 2, obstacle: Some(obstacle), ..Plan::default() };
        let instances = vec![mk_instance("Running", ""); copies];
        let status = summarize(&Workload::default(), &instances, &plan, Timestamp::default());
        assert_eq!((&*status.state, &*status.reason, &*status.message), expect);
        let scheduled = &status.conditions[1];
        assert_eq!((&*scheduled.status, &*scheduled.reason), ("False", "NotScheduled"));
        assert_eq!(scheduled.message, status.message);
    }

    #[test]
    fn what_stands_in_the_way_is_said() {
        let none = || Obstacle::TooFewNodes("there is no node".into());
        check_obstacle(none(), 0, ("NotScheduled", "TooFewNodes", "there is no node"));
        check_obstacle(none(), 1, ("Pending", "TooFewNodes", "there is no node"));
        let way = ["a", "b", "a"].map(str::to_owned).into();
        let said = "it waits for itself: a -> b -> a; take one of these dependencies out";
        check_obstacle(Obstacle::Cycle(way), 0, ("NotScheduled", "DependencyCycle", said));
    }
}

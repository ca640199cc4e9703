//! How soon a change makes the controller look at a workload: pure.
//!
//! What people ask for is done at once. What agents report is summed up, and a sum is worth a moment: what
//! else is reported meanwhile is part of it, and nobody who asks for something stands behind it.
use super::controller::FIRST_WORDS;
use orrery_proto::apps::v1::{Workload, WorkloadInstance};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::Change;
use std::time::Duration;

/// A copy is in another state.
const OTHER_STATE: Duration = Duration::from_millis(20);
/// So much longer a sum waits for each workload beyond a few that is being looked at, up to
/// [`FIRST_WORDS`]: in a burst, what people asked for is done first, and then more is summed up at once.
const FEW: usize = 4;
const LONGER_FOR_EACH: Duration = Duration::from_millis(8);
/// Only figures and words differ.
const OTHER_WORDS: Duration = Duration::from_secs(1);

/// `None` means now.
pub fn of_workload(change: &Change<Workload>) -> Option<Duration> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return None };
    let same = asked(old.metadata.as_ref()) == asked(new.metadata.as_ref());
    // A status is what this controller wrote itself; if it was somebody else, it is put right.
    same.then_some(OTHER_WORDS)
}

/// `None` means now. `under_way` is how many workloads are being looked at.
pub fn of_copy(change: &Change<WorkloadInstance>, under_way: usize) -> Option<Duration> {
    // One that is gone may have to be replaced, or was the last one.
    let new = change.new.as_deref()?;
    let Some(old) = change.old.as_deref() else {
        let is_silent = new.status.as_ref().is_none_or(|status| status.reason == "Initial");
        return Some(if is_silent { FIRST_WORDS } else { other_state(under_way) });
    };
    let same = matters(old) == matters(new);
    Some(if same { OTHER_WORDS } else { other_state(under_way) })
}

fn other_state(under_way: usize) -> Duration {
    let many = u32::try_from(under_way.saturating_sub(FEW)).unwrap_or(u32::MAX);
    let longer = LONGER_FOR_EACH.saturating_mul(many);
    OTHER_STATE.saturating_add(longer).min(FIRST_WORDS)
}

/// What people asked for, as far as metadata tell. Annotations are notes of people and tools: nobody acts on them here.
fn asked(meta: Option<&ObjectMeta>) -> Option<impl PartialEq + '_> {
    let key = |meta: &'_ ObjectMeta| (meta.generation, meta.deletion_timestamp);
    meta.map(|meta| (key(meta), &meta.uid, &meta.labels, &meta.finalizers))
}

/// What decides about a copy, and about the state of the whole.
fn matters(copy: &WorkloadInstance) -> impl PartialEq + '_ {
    let status = copy.status.as_ref();
    let status = status.map(|it| (&it.state, &it.reason, it.ready, it.observed_generation));
    (asked(copy.metadata.as_ref()), status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_hub::ObjectName;
    use orrery_proto::apps::v1::{WorkloadInstanceStatus, WorkloadStatus};
    use std::sync::Arc;

    fn mk_copy(state: &str, reason: &str, restarts: i64) -> WorkloadInstance {
        let status = WorkloadInstanceStatus {
            state: state.into(),
            reason: reason.into(),
            restarts,
            ..WorkloadInstanceStatus::default()
        };
        let metadata = Some(ObjectMeta { uid: "u".into(), ..ObjectMeta::default() });
        WorkloadInstance { metadata, status: Some(status), ..WorkloadInstance::default() }
    }

    fn change<T>(old: Option<T>, new: Option<T>) -> Change<T> {
        let name = ObjectName::new("shop", "web");
        Change { name, old: old.map(Arc::new), new: new.map(Arc::new) }
    }

    #[test]
    fn a_copy_that_goes_is_looked_at_now_and_figures_can_wait() {
        let running = || Some(mk_copy("Running", "", 0));
        assert_eq!(of_copy(&change(running(), None), 64), None);
        let introduced = Some(mk_copy("Pending", "Initial", 0));
        assert_eq!(of_copy(&change(None, introduced.clone()), 0), Some(FIRST_WORDS));
        assert_eq!(of_copy(&change(introduced.clone(), running()), FEW), Some(OTHER_STATE));
        let in_a_burst = of_copy(&change(introduced, running()), 64);
        assert_eq!(in_a_burst, Some(FIRST_WORDS), "others ask for something");
        assert_eq!(of_copy(&change(None, running()), 0), Some(OTHER_STATE), "seen at the start");
        let restarted = Some(mk_copy("Running", "", 1));
        assert_eq!(of_copy(&change(running(), restarted), 0), Some(OTHER_WORDS));
        let mut unready = mk_copy("Running", "", 0);
        unready.status.as_mut().expect("a status").ready = Some(false);
        assert_eq!(of_copy(&change(running(), Some(unready)), 0), Some(OTHER_STATE));
    }

    #[test]
    fn what_people_ask_for_is_done_now() {
        let mk_workload = |generation: i64, state: &str| {
            let metadata = Some(ObjectMeta { generation, ..ObjectMeta::default() });
            let status = Some(WorkloadStatus { state: state.into(), ..WorkloadStatus::default() });
            Some(Workload { metadata, status, ..Workload::default() })
        };
        assert_eq!(of_workload(&change(None, mk_workload(1, ""))), None);
        assert_eq!(
            of_workload(&change(mk_workload(1, "Running"), mk_workload(2, "Running"))),
            None
        );
        assert_eq!(of_workload(&change(mk_workload(1, "Running"), None)), None);
        let told = of_workload(&change(mk_workload(1, "Pending"), mk_workload(1, "Running")));
        assert_eq!(told, Some(OTHER_WORDS));
        let mut noted = mk_workload(1, "Running").expect("a workload");
        let meta = noted.metadata.as_mut().expect("metadata");
        meta.annotations.insert("note".into(), "read me".into());
        let noted = of_workload(&change(mk_workload(1, "Running"), Some(noted)));
        assert_eq!(noted, Some(OTHER_WORDS), "nobody acts on notes");
        let mut deleted = mk_workload(1, "Running").expect("a workload");
        deleted.metadata.as_mut().expect("metadata").deletion_timestamp = Some(<_>::default());
        assert_eq!(of_workload(&change(mk_workload(1, "Running"), Some(deleted))), None);
    }
}

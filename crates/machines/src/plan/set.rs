//! A set: a number of machines of one class revision.
use super::{Bound, Phase, Reason, Time};

/// Machines created or deleted in one step at most, before what has become of them is looked at.
pub const STEP_MAX: usize = 90;

/// What is wanted of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSpec {
    pub replicas: u32,
    /// How many machines may exist at once, those on their way out included. Given by a deployment;
    /// a set on its own may exceed its replicas by what is being replaced.
    pub ceiling: Option<u32>,
    /// How many unhealthy machines are replaced at once.
    pub max_replaced: Bound,
    /// Nothing is created or deleted.
    pub frozen: bool,
}

/// A machine, as sets and deployments see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    pub name: String,
    pub phase: Phase,
    /// Running, and for long enough.
    pub available: bool,
    pub created_at: Time,
    /// Someone wants this one to go first.
    pub marked: bool,
    /// Someone wants to look at it if it fails.
    pub keep: bool,
    /// Its deletion has been asked for.
    pub deleting: bool,
}

impl MachineView {
    /// Failed and kept for a look: counted nowhere and deleted by nobody.
    pub fn is_kept(&self) -> bool {
        self.keep && self.phase == Phase::Failed && !self.deleting
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetPlan {
    pub create: usize,
    pub delete: Vec<(String, Reason)>,
    pub reasons: Vec<Reason>,
}

/// What a set should do now.
pub fn plan(spec: &SetSpec, machines: &[MachineView]) -> SetPlan {
    let mut plan = SetPlan::default();
    if spec.frozen {
        plan.reasons.push(Reason::new("Frozen", "nothing is created or deleted while frozen"));
        return plan;
    }
    let existing = machines.iter().filter(|it| !it.is_kept()).count();
    let mut order = deletion_order(machines);
    let replicas = spec.replicas as usize;
    let surplus = order.len().saturating_sub(replicas).min(STEP_MAX);
    for machine in order.drain(..surplus) {
        plan.delete.push((machine.name.clone(), too_many(machine, spec.replicas)));
    }
    let mut active = order.len();
    for machine in replaced(spec, &order, existing, STEP_MAX - surplus) {
        plan.delete.push((machine.name.clone(), unhealthy(machine)));
        active -= 1;
    }
    let missing = replicas.saturating_sub(active);
    let room = (ceiling(spec) as usize).saturating_sub(existing);
    plan.create = missing.min(room).min(STEP_MAX - plan.delete.len());
    if plan.create < missing {
        let waiting = missing - plan.create;
        plan.reasons.push(Reason::new(
            "WaitingForRoom",
            format!("{waiting} more are wanted and wait for others to be done"),
        ));
    }
    plan
}

fn ceiling(spec: &SetSpec) -> u32 {
    spec.ceiling.unwrap_or_else(|| spec.replicas.saturating_add(replaced_max(spec)))
}

fn replaced_max(spec: &SetSpec) -> u32 {
    spec.max_replaced.rounded_down(spec.replicas).max(1)
}

/// Machines that are there to be deleted, the first to go first: marked, then by how little they are
/// worth, then the oldest.
pub fn deletion_order(machines: &[MachineView]) -> Vec<&MachineView> {
    let mut order: Vec<&MachineView> =
        machines.iter().filter(|it| !it.deleting && !it.is_kept()).collect();
    order.sort_by(|a, b| rank(a).cmp(&rank(b)));
    order
}

fn rank(machine: &MachineView) -> (bool, u8, Time, &str) {
    let worth = match machine.phase {
        Phase::Terminating => 0,
        Phase::Failed => 1,
        Phase::CrashLoopBackOff => 2,
        Phase::Unknown => 3,
        Phase::Pending => 4,
        Phase::Available => 5,
        // One that just joined is worth less than one that has proved itself.
        Phase::Running if !machine.available => 6,
        Phase::Running => 7,
    };
    (!machine.marked, worth, machine.created_at, &machine.name)
}

/// Failed machines to replace now: no more than allowed, counting those whose replacement is still
/// under way. If the whole world fails at once, it is not torn down at once.
fn replaced<'a>(
    spec: &SetSpec,
    active: &[&'a MachineView],
    existing: usize,
    step: usize,
) -> Vec<&'a MachineView> {
    let coming = |it: &&&MachineView| {
        matches!(it.phase, Phase::Pending | Phase::Available | Phase::CrashLoopBackOff)
    };
    let missing = (spec.replicas as usize).saturating_sub(active.len());
    let room = (ceiling(spec) as usize).saturating_sub(existing);
    let leaving = existing.saturating_sub(active.len());
    // What is missing and finds no room is not under way: a failed machine has to make room for it.
    let under_way = active.iter().filter(coming).count() + missing.min(room).max(leaving);
    let budget = (replaced_max(spec) as usize).saturating_sub(under_way).min(step);
    active.iter().copied().filter(|it| it.phase == Phase::Failed).take(budget).collect()
}

fn too_many(machine: &MachineView, replicas: u32) -> Reason {
    let why = if machine.marked { "it is marked to go first" } else { "it is the least useful" };
    Reason::new("ScaledDown", format!("{replicas} are wanted, there are more, and {why}"))
}

fn unhealthy(machine: &MachineView) -> Reason {
    Reason::new("Replaced", format!("{} failed and is replaced", machine.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One word per machine: its phase's first letter, `!` for marked, `k` for kept, `d` for
    /// deleting; named by its place and the older the earlier.
    fn machines(words: &str) -> Vec<MachineView> {
        let mk = |(index, word): (usize, &str)| {
            let phase = match &word[..1] {
                "P" => Phase::Pending,
                "A" => Phase::Available,
                "R" => Phase::Running,
                "U" => Phase::Unknown,
                "F" => Phase::Failed,
                "C" => Phase::CrashLoopBackOff,
                other => panic!("{other} is no phase"),
            };
            MachineView {
                name: index.to_string(),
                phase,
                available: phase == Phase::Running,
                created_at: Time::from_second(index as i64).expect("in range"),
                marked: word.contains('!'),
                keep: word.contains('k'),
                deleting: word.contains('d'),
            }
        };
        words.split_whitespace().enumerate().map(mk).collect()
    }

    #[track_caller]
    fn check(replicas: u32, ceiling: Option<u32>, words: &str, create: usize, delete: &str) {
        let max_replaced = Bound::Count(1);
        let spec = SetSpec { replicas, ceiling, max_replaced, frozen: false };
        let plan = super::plan(&spec, &machines(words));
        let names: Vec<&str> = plan.delete.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((plan.create, names.join(" ").as_str()), (create, delete), "{words}");
        let frozen = super::plan(&SetSpec { frozen: true, ..spec }, &machines(words));
        assert_eq!((frozen.create, frozen.delete.len()), (0, 0), "frozen: {words}");
    }

    /// proves: MCH-07
    #[test]
    fn scales_to_what_is_wanted() {
        check(3, None, "", 3, "");
        check(3, None, "R R R", 0, "");
        check(3, None, "R", 2, "");
        check(0, None, "R P", 0, "1 0");
        check(500, None, "", STEP_MAX, "");
    }

    /// proves: MCH-07
    #[test]
    fn the_least_useful_go_first_and_then_the_oldest() {
        check(0, None, "R A P U C F R! R", 0, "6 5 4 3 2 1 0 7");
        check(1, None, "R R R", 0, "0 1");
        check(2, None, "Rd R R", 0, "");
    }

    #[test]
    fn only_so_many_are_replaced_at_once() {
        check(3, None, "R F F", 1, "1");
        check(3, None, "R F Fd", 1, "");
        check(3, None, "R F P", 0, "");
        check(3, Some(3), "R R F", 0, "2");
        check(3, Some(3), "R R Fd", 0, "");
        check(3, Some(4), "R R Fd", 1, "");
        check(3, Some(3), "F F Fd", 0, "");
        check(2, Some(1), "F", 0, "0");
    }

    #[test]
    fn a_kept_machine_is_left_alone_and_replaced() {
        check(2, None, "R Fk", 1, "");
        check(0, None, "R Fk", 0, "0");
    }
}

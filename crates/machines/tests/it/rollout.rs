//! Deployments and sets in every order of events: the bounds are never broken, and it converges.
//!
//! The world keeps the two rules of the plan's module: a set acts on itself as it is, and a
//! deployment writes all its sets at once. Everything else happens in any order.
use orrery_machines::plan::deployment::{self, DeploymentPlan, DeploymentSpec, SetView};
use orrery_machines::plan::set::{self, MachineView, SetSpec};
use orrery_machines::plan::{Bound, Phase, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Plan,
    SetStep(usize),
    Progress(usize),
    Break(usize),
    Vanish(usize),
    Mark(usize),
    Keep(usize),
    Replicas(u32),
    Class(u8),
    Surge(Bound),
    Unavailable(Bound),
    Pause(bool),
    Freeze(bool),
}

fn bounds() -> impl Strategy<Value = Bound> {
    prop_oneof![(0u32..4).prop_map(Bound::Count), (0u32..101).prop_map(Bound::Percent)]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Plan),
        8 => (0usize..4).prop_map(Event::SetStep),
        12 => any::<usize>().prop_map(Event::Progress),
        3 => any::<usize>().prop_map(Event::Break),
        5 => any::<usize>().prop_map(Event::Vanish),
        1 => any::<usize>().prop_map(Event::Mark),
        1 => any::<usize>().prop_map(Event::Keep),
        1 => (0u32..9).prop_map(Event::Replicas),
        2 => (0u8..3).prop_map(Event::Class),
        1 => bounds().prop_map(Event::Surge),
        1 => bounds().prop_map(Event::Unavailable),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => any::<bool>().prop_map(Event::Freeze),
    ]
}

struct World {
    spec: DeploymentSpec,
    sets: Vec<SetView>,
    made: i64,
    /// Limit of the last plan that was written, and what it leaves available.
    promised: (u32, u32),
    /// Something got worse by itself since then.
    lost: bool,
}

impl World {
    fn new() -> Self {
        let spec = DeploymentSpec {
            replicas: 3,
            max_surge: Bound::Count(1),
            max_unavailable: Bound::Count(0),
            paused: false,
            frozen: false,
            hash: "class-0".into(),
            history_limit: 2,
        };
        Self { spec, sets: Vec::new(), made: 0, promised: (0, 0), lost: false }
    }

    fn machines(&self) -> impl Iterator<Item = &MachineView> {
        self.sets.iter().flat_map(|set| &set.machines)
    }

    fn existing(&self) -> u32 {
        self.machines().filter(|it| !it.is_kept()).count() as u32
    }

    fn available(&self) -> u32 {
        self.machines().filter(|it| it.available && !it.deleting).count() as u32
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Plan => self.plan(),
            Event::SetStep(index) => {
                if *index < self.sets.len() {
                    self.step(*index);
                }
            }
            Event::Progress(at) => self.change(*at, false, progress),
            Event::Break(at) => self.change(*at, true, break_down),
            Event::Mark(at) => self.change(*at, true, |it| it.marked = true),
            Event::Keep(at) => self.change(*at, true, |it| it.keep = true),
            Event::Vanish(at) => self.vanish(*at),
            Event::Replicas(replicas) => self.spec.replicas = *replicas,
            Event::Class(class) => self.spec.hash = format!("class-{class}"),
            Event::Surge(bound) => self.spec.max_surge = *bound,
            Event::Unavailable(bound) => self.spec.max_unavailable = *bound,
            Event::Pause(paused) => self.spec.paused = *paused,
            Event::Freeze(frozen) => self.spec.frozen = *frozen,
        }
    }

    fn change(&mut self, at: usize, worse: bool, how: impl Fn(&mut MachineView)) {
        let count = self.machines().count();
        let machines = self.sets.iter_mut().flat_map(|set| &mut set.machines);
        if let Some(machine) = machines.cycle_to(at, count) {
            how(machine);
            self.lost |= worse;
        }
    }

    fn vanish(&mut self, at: usize) {
        let gone: Vec<String> =
            self.machines().filter(|it| it.deleting).map(|it| it.name.clone()).collect();
        if let Some(name) = gone.get(at % gone.len().max(1)) {
            for set in &mut self.sets {
                set.machines.retain(|it| it.name != *name);
            }
        }
    }

    /// Available machines once every set has reached its target.
    fn left_available(&self) -> u32 {
        let left = |set: &SetView| {
            let order = set::deletion_order(&set.machines);
            let surplus = order.len().saturating_sub(set.replicas as usize);
            order[surplus..].iter().filter(|it| it.available).count() as u32
        };
        self.sets.iter().map(left).sum()
    }

    fn plan(&mut self) {
        let before = self.left_available();
        let plan = deployment::plan(&self.spec, &self.sets);
        self.write(plan);
        if self.spec.frozen {
            return;
        }
        let floor = self.spec.floor();
        let left = self.left_available();
        assert!(left >= floor.min(before), "{left} of {before} left, floor {floor}");
        self.promised = (self.spec.limit(), floor.min(left));
        self.lost = false;
        let ceilings: u32 = self.sets.iter().map(|it| it.ceiling).sum();
        assert!(ceilings <= self.spec.limit(), "ceilings {ceilings} > {}", self.spec.limit());
        let again = deployment::plan(&self.spec, &self.sets);
        assert!(again.create.is_none() && again.change.is_empty(), "not settled: {again:?}");
    }

    fn write(&mut self, plan: DeploymentPlan) {
        for change in plan.change {
            let set = self.sets.iter_mut().find(|it| it.name == change.name).expect("known");
            (set.revision, set.replicas, set.ceiling) =
                (change.revision, change.replicas, change.ceiling);
        }
        self.sets.retain(|it| !plan.remove.contains(&it.name));
        if let Some(made) = plan.create {
            self.sets.push(SetView {
                name: made.hash.clone(),
                hash: made.hash,
                revision: made.revision,
                replicas: made.replicas,
                ceiling: made.ceiling,
                machines: Vec::new(),
            });
        }
    }

    fn step(&mut self, index: usize) {
        let before = self.available();
        let set = &mut self.sets[index];
        let spec = SetSpec {
            replicas: set.replicas,
            ceiling: Some(set.ceiling),
            max_replaced: Bound::Count(1),
            frozen: self.spec.frozen,
        };
        let plan = set::plan(&spec, &set.machines);
        for machine in &mut set.machines {
            machine.deleting |= plan.delete.iter().any(|(name, _)| *name == machine.name);
        }
        for _ in 0..plan.create {
            self.made += 1;
            set.machines.push(mk_machine(self.made));
        }
        let (limit, floor) = self.promised;
        if plan.create > 0 {
            assert!(self.existing() <= limit, "{} exist, {limit} may", self.existing());
        }
        if !plan.delete.is_empty() && !self.lost {
            let after = self.available();
            assert!(after >= floor, "{after} available, was {before}, {floor} promised");
        }
    }

    /// The provider works, nobody interferes, and every controller gets its turn.
    fn converge(&mut self) {
        self.spec.paused = false;
        self.spec.frozen = false;
        for _ in 0..300 {
            self.plan();
            for index in 0..self.sets.len() {
                self.step(index);
            }
            let machines = self.sets.iter_mut().flat_map(|set| &mut set.machines);
            machines.for_each(progress);
            for set in &mut self.sets {
                set.machines.retain(|it| !it.deleting);
            }
        }
        let plan = deployment::plan(&self.spec, &self.sets);
        assert!(plan.progress.complete, "{:?} {:?}", plan.progress, self.sets);
    }
}

fn mk_machine(number: i64) -> MachineView {
    MachineView {
        name: format!("m{number}"),
        phase: Phase::Pending,
        available: false,
        created_at: Time::from_second(number).expect("in range"),
        marked: false,
        keep: false,
        deleting: false,
    }
}

fn progress(machine: &mut MachineView) {
    machine.phase = match machine.phase {
        Phase::Pending | Phase::CrashLoopBackOff => Phase::Available,
        Phase::Available | Phase::Running | Phase::Unknown => Phase::Running,
        Phase::Failed => Phase::Failed,
        Phase::Terminating => Phase::Terminating,
    };
    machine.available = machine.phase == Phase::Running;
}

fn break_down(machine: &mut MachineView) {
    machine.phase = match machine.phase {
        Phase::Pending => Phase::CrashLoopBackOff,
        Phase::Running => Phase::Unknown,
        Phase::Available | Phase::Unknown | Phase::CrashLoopBackOff | Phase::Failed => {
            Phase::Failed
        }
        Phase::Terminating => Phase::Terminating,
    };
    machine.available = false;
}

trait CycleTo: Iterator + Sized {
    fn cycle_to(mut self, at: usize, count: usize) -> Option<Self::Item> {
        if count == 0 { None } else { self.nth(at % count) }
    }
}
impl<I: Iterator> CycleTo for I {}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    /// proves: MCH-07
    #[test]
    fn bounds_hold_under_any_order_of_events(events in prop::collection::vec(events(), 0..120)) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        world.converge();
    }
}

//! A set on its own while the world fails around it: it is not torn down faster than allowed.
use orrery_machines::plan::set::{self, MachineView, SetSpec};
use orrery_machines::plan::{Bound, Phase, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Step,
    Fail(usize),
    Recover(usize),
    Progress(usize),
    Vanish,
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Step),
        4 => any::<usize>().prop_map(Event::Fail),
        1 => any::<usize>().prop_map(Event::Recover),
        2 => any::<usize>().prop_map(Event::Progress),
        1 => Just(Event::Vanish),
    ]
}

fn mk_machine(number: usize, phase: Phase) -> MachineView {
    MachineView {
        name: format!("m{number}"),
        phase,
        available: phase == Phase::Running,
        created_at: Time::from_second(number as i64).expect("in range"),
        marked: false,
        keep: false,
        deleting: false,
    }
}

struct World {
    spec: SetSpec,
    machines: Vec<MachineView>,
    made: usize,
}

impl World {
    fn new(replicas: u32, max_replaced: Bound) -> Self {
        let spec = SetSpec { replicas, ceiling: None, max_replaced, frozen: false };
        let machines = (0..replicas as usize).map(|it| mk_machine(it, Phase::Running)).collect();
        Self { spec, machines, made: replicas as usize }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Step => self.step(),
            Event::Fail(at) => self.become_if(*at, Phase::Failed, |_| true),
            Event::Recover(at) => self.become_if(*at, Phase::Running, |it| it == Phase::Unknown),
            Event::Progress(at) => self.become_if(*at, Phase::Running, |it| it != Phase::Failed),
            Event::Vanish => self.machines.retain(|it| !it.deleting),
        }
    }

    fn become_if(&mut self, at: usize, phase: Phase, when: impl Fn(Phase) -> bool) {
        let count = self.machines.len().max(1);
        if let Some(machine) = self.machines.get_mut(at % count)
            && when(machine.phase)
        {
            machine.phase = phase;
            machine.available = phase == Phase::Running;
        }
    }

    fn step(&mut self) {
        let plan = set::plan(&self.spec, &self.machines);
        for machine in &mut self.machines {
            machine.deleting |= plan.delete.iter().any(|(name, _)| *name == machine.name);
        }
        for _ in 0..plan.create {
            self.made += 1;
            self.machines.push(mk_machine(self.made, Phase::Pending));
        }
        let allowed = self.spec.max_replaced.rounded_down(self.spec.replicas).max(1);
        let wanted = self.spec.replicas as usize;
        let leaving = self.machines.iter().filter(|it| it.deleting).count();
        let torn_down = plan.delete.len();
        assert!(torn_down == 0 || leaving <= allowed as usize, "{leaving} leave, {allowed} may");
        assert!(self.machines.len() <= wanted + allowed as usize, "too many exist");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    /// proves: MCH-07
    #[test]
    fn no_more_are_replaced_at_once_than_allowed(
        replicas in 1u32..12,
        max in prop_oneof![(0u32..4).prop_map(Bound::Count), (0u32..60).prop_map(Bound::Percent)],
        events in prop::collection::vec(events(), 0..150),
    ) {
        let mut world = World::new(replicas, max);
        for event in &events {
            world.happen(event);
        }
        for _ in 0..200 {
            world.step();
            world.happen(&Event::Vanish);
            for at in 0..world.machines.len() {
                world.happen(&Event::Progress(at));
            }
        }
        let running = world.machines.iter().filter(|it| it.available).count();
        prop_assert_eq!((running, world.machines.len()), (replicas as usize, replicas as usize));
    }
}

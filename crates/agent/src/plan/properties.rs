//! A small model of a machine on which plans are carried out, and what must hold in it whatever
//! happens.
use super::tests::{desired, ended, observed, running};
use super::*;
use crate::model::{Exit, RunState};
use proptest::prelude::*;

/// What may happen to an instance from outside.
#[derive(Clone, Debug)]
enum Happening {
    Passes(Duration),
    Dies(Exit),
    Vanishes,
    Redefined(u8),
    Wanted(Goal),
    CannotStart(bool),
    IgnoresSignals(bool),
    OperationsFail(bool),
    AgentRestarts,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0_u64..90_000).prop_map(|ms| Happening::Passes(Duration::from_millis(ms))),
        2 => prop_oneof![Just(Exit::Code(0)), Just(Exit::Code(3)), Just(Exit::Signal(9))]
            .prop_map(Happening::Dies),
        1 => Just(Happening::Vanishes),
        1 => (0_u8..3).prop_map(Happening::Redefined),
        2 => prop_oneof![
            Just(Goal::Run), Just(Goal::Hold), Just(Goal::Halt), Just(Goal::Remove)
        ].prop_map(Happening::Wanted),
        1 => any::<bool>().prop_map(Happening::CannotStart),
        1 => any::<bool>().prop_map(Happening::IgnoresSignals),
        1 => any::<bool>().prop_map(Happening::OperationsFail),
        1 => Just(Happening::AgentRestarts),
    ]
}

fn policy() -> impl Strategy<Value = RestartPolicy> {
    prop_oneof![
        Just(RestartPolicy::Never),
        Just(RestartPolicy::OnFailure),
        Just(RestartPolicy::Always)
    ]
}

struct World {
    now: Instant,
    desired: Desired,
    observed: Observed,
    /// What really runs, which the agent may have forgotten.
    truth: Option<Run>,
    removed: bool,
    cannot_start: bool,
    ignores_signals: bool,
    operations_fail: bool,
    last_start: Option<Instant>,
}

impl World {
    fn new(restart: RestartPolicy) -> Self {
        let now = Instant::now();
        Self {
            now,
            desired: Desired { restart, ..desired() },
            observed: Observed { saved: false, ..observed(None, now) },
            truth: None,
            removed: false,
            cannot_start: false,
            ignores_signals: false,
            operations_fail: false,
            last_start: None,
        }
    }

    fn plan(&self) -> Plan {
        super::plan(&self.desired, &self.observed, &Timing::default(), self.now)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Passes(time) => self.pass(time),
            Happening::Dies(exit) => self.end(ended(exit)),
            Happening::Vanishes => {
                let message = "gone".to_owned();
                self.end(RunState::Lost { message, started_at: crate::model::UnixMillis(1) });
            }
            Happening::Redefined(number) => {
                self.desired.hash = SpecHash(number.to_string());
                self.observed.saved = false;
            }
            Happening::Wanted(goal) => {
                self.desired.goal = goal;
                self.observed.saved = false;
            }
            Happening::CannotStart(so) => self.cannot_start = so,
            Happening::IgnoresSignals(so) => self.ignores_signals = so,
            Happening::OperationsFail(so) => self.operations_fail = so,
            Happening::AgentRestarts => {
                let forgotten = Observed { known: false, ..observed(None, self.now) };
                self.observed = Observed { saved: self.observed.saved, ..forgotten };
            }
        }
        self.settle();
    }

    /// Time passes in steps, with all wake-ups on the way.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wake) = self.plan().wake.filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.settle();
        }
        self.now = until;
    }

    /// Carries out actions until there are none, which must not take many.
    fn settle(&mut self) {
        for _ in 0..8 {
            let Some(action) = self.plan().action else { return };
            self.perform(action);
        }
        panic!("no rest: {:?} in {:?}", self.plan(), self.observed);
    }

    fn perform(&mut self, action: Action) {
        if self.operations_fail {
            let phase = action.trouble_phase();
            self.observed.trouble = Some(Trouble { message: "cannot".into(), at: self.now, phase });
            return;
        }
        self.observed.trouble = None;
        match action {
            Action::Inspect => self.see(),
            Action::Save => self.observed.saved = true,
            Action::Start(history) => self.start(history),
            Action::Stop => self.stop(false),
            Action::Kill => self.stop(true),
            Action::Remove => {
                assert!(!self.is_live(), "removed while it runs");
                self.truth = None;
                self.see();
                self.removed = true;
                // The shell forgets the instance here; the model keeps it, as if wanted by nobody.
                self.desired.goal = Goal::Hold;
            }
        }
    }

    fn start(&mut self, history: History) {
        assert!(!self.is_live(), "nothing runs twice");
        assert!(self.observed.saved, "started before it was written down");
        assert_eq!(self.desired.goal, Goal::Run, "started although not wanted");
        self.last_start = Some(self.now);
        self.removed = false;
        let message = "cannot start".to_owned();
        let state = if self.cannot_start { RunState::StartFailed { message } } else { running() };
        self.truth = Some(Run {
            hash: self.desired.hash.clone(),
            history,
            state,
            warning: None,
            stop: None,
        });
        self.see();
    }

    fn stop(&mut self, kill: bool) {
        assert!(self.is_live(), "stopped although nothing runs");
        let stop = self.observed.stop.get_or_insert(StopProgress {
            requested_at: self.now,
            killed_at: None,
            kills: 0,
        });
        if kill {
            stop.killed_at = Some(self.now);
            stop.kills += 1;
        }
        if kill || !self.ignores_signals {
            self.end(ended(Exit::Signal(15)));
        }
    }

    fn end(&mut self, state: RunState) {
        if let Some(run) = self.truth.as_mut().filter(|run| run.is_live()) {
            run.state = state;
            if self.observed.known {
                self.see();
            }
        }
    }

    fn see(&mut self) {
        self.observed.known = true;
        self.observed.since = self.now;
        self.observed.stop = None;
        self.observed.run = self.truth.clone();
    }

    fn is_live(&self) -> bool {
        self.truth.as_ref().is_some_and(Run::is_live)
    }

    /// Lets enough time pass for everything that can happen by itself.
    fn calm(&mut self, goal: Goal) {
        self.cannot_start = false;
        self.operations_fail = false;
        self.desired.goal = goal;
        self.observed.saved = false;
        self.settle();
        self.pass(Duration::from_secs(300));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// proves: AGT-15
    #[test]
    fn whatever_happens_what_is_wanted_comes_true(
        restart in policy(),
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let mut world = World::new(restart);
        for happening in happenings {
            world.happen(happening);
            let plan = world.plan();
            prop_assert_eq!(plan.action, None, "settled");
            prop_assert!(plan.wake.is_none_or(|wake| wake > world.now));
            let said_running =
                matches!(plan.words.phase, Phase::Running | Phase::RunningNotReady);
            prop_assert!(!said_running || world.is_live(), "said to run");
        }
        world.calm(Goal::Run);
        if restart == RestartPolicy::Always {
            prop_assert!(world.is_live(), "{:?}", world.observed);
            let hash = world.truth.as_ref().map(|run| run.hash.clone());
            prop_assert_eq!(hash, Some(world.desired.hash.clone()));
        }
        world.calm(Goal::Halt);
        prop_assert!(!world.is_live());
        world.calm(Goal::Remove);
        prop_assert!(world.removed);
        prop_assert!(world.truth.is_none());
    }

    /// A program that dies at once is not started in a tight loop, however often it dies.
    #[test]
    fn restarts_are_never_faster_than_the_back_off(seed in any::<u64>()) {
        let mut world = World::new(RestartPolicy::Always);
        world.desired.jitter_seed = seed;
        world.settle();
        let timing = Timing::default();
        let mut last = world.now;
        for number in 1..40_u32 {
            world.happen(Happening::Dies(Exit::Code(1)));
            let wake = world.plan().wake.expect("it waits");
            world.pass(wake - world.now);
            let waited = world.last_start.expect("it was started") - last;
            prop_assert!(waited >= timing.first_delay * 3 / 4);
            prop_assert!(number < 10 || waited >= timing.longest_delay * 3 / 4, "{waited:?}");
            last = world.now;
        }
    }
}

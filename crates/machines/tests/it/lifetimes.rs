//! One machine against a provider that fails in every way: never two machines, never one forgotten.
use orrery_machines::drivers::{Created, DriverKey, ErrorCode, Found, GoneReason, OpError, OpKind};
use orrery_machines::plan::Time;
use orrery_machines::plan::machine::{
    Act, Decision, Limits, NodeHealth, Observed, Outcome, Phase, Record, Wanted, decide, settle,
};
use proptest::prelude::*;
use std::time::Duration;

/// How the next operation ends.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Works,
    /// Nothing happened, and the driver says so.
    Refused(ErrorCode),
    /// It did not get there.
    NotSent,
    /// It happened, and the answer was lost.
    LostAfter,
    /// It did not happen, and the answer was lost.
    LostBefore,
    /// The server was killed after it happened, before the outcome was written.
    KilledAfter,
    KilledBefore,
}

#[derive(Clone, Debug)]
struct Step {
    seconds: i64,
    fate: Fate,
    node: NodeHealth,
    drained: bool,
    delete: bool,
    revision: i64,
}

fn steps() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        Just(Fate::Works),
        Just(Fate::Refused(ErrorCode::ResourceExhausted)),
        Just(Fate::Refused(ErrorCode::InvalidArgument)),
        Just(Fate::Refused(ErrorCode::Unavailable)),
        Just(Fate::NotSent),
        Just(Fate::LostAfter),
        Just(Fate::LostBefore),
        Just(Fate::KilledAfter),
        Just(Fate::KilledBefore),
    ];
    let node = prop_oneof![
        Just(NodeHealth::Absent),
        Just(NodeHealth::Healthy),
        Just(NodeHealth::Unhealthy)
    ];
    let delete = prop::bool::weighted(0.1);
    (0i64..400, fate, node, any::<bool>(), delete, 1i64..3).prop_map(
        |(seconds, fate, node, drained, delete, revision)| Step {
            seconds,
            fate,
            node,
            drained,
            delete,
            revision,
        },
    )
}

struct World {
    now: Time,
    wanted: Wanted,
    record: Record,
    /// Machines at the provider.
    there: u32,
    forgotten: bool,
}

impl World {
    fn new() -> Self {
        let now = Time::UNIX_EPOCH;
        let limits = Limits {
            creation: Duration::from_secs(1200),
            health: Duration::from_secs(600),
            drain: Duration::from_secs(300),
        };
        let wanted = Wanted { limits, delete: false, revision: 1, frozen: false, forget: false };
        Self { now, wanted, record: Record::new(now), there: 0, forgotten: false }
    }

    fn step(&mut self, step: &Step) -> Act {
        self.now += jiff::SignedDuration::from_secs(step.seconds);
        self.wanted.delete |= step.delete;
        self.wanted.revision = self.wanted.revision.max(step.revision);
        let observed = Observed { node: step.node, drained: step.drained, in_flight: None };
        let decision = decide(self.now, &self.wanted, &self.record, &observed);
        let again = decide(self.now, &self.wanted, &decision.record, &observed);
        assert!(agree(&decision, &again), "{decision:?} then {again:?}");
        self.record = decision.record;
        match decision.act {
            Act::Create => {
                assert_eq!(self.there, 0, "a second machine");
                self.operate(OpKind::Create, step.fate, |world| {
                    world.there = 1;
                    Outcome::Created(Created { provider_id: "p".into(), ..Created::default() })
                });
            }
            Act::Delete => self.operate(OpKind::Delete, step.fate, |world| {
                world.there = 0;
                Outcome::Deleted
            }),
            Act::Resolve => self.operate(OpKind::List, step.fate, |world| {
                let found = Found { provider_id: "p".into(), ..Found::default() };
                Outcome::Resolved((world.there > 0).then_some(found))
            }),
            Act::Forget => {
                assert_eq!(self.there, 0, "a machine is left behind");
                self.forgotten = true;
            }
            Act::Nothing | Act::Drain | Act::Abort => {}
        }
        decision.act
    }

    fn operate(&mut self, kind: OpKind, fate: Fate, work: impl FnOnce(&mut Self) -> Outcome) {
        let driver = || "d".to_owned();
        let lost =
            OpError::AnswerLost { driver: driver(), operation: kind, reason: GoneReason::Closed };
        let outcome = match fate {
            Fate::Works => work(self),
            Fate::LostAfter => {
                work(self);
                Outcome::Failed(kind, lost)
            }
            Fate::LostBefore => Outcome::Failed(kind, lost),
            Fate::NotSent => {
                Outcome::Failed(kind, OpError::NoDriver { key: DriverKey::new("K", "v1") })
            }
            Fate::Refused(code) => Outcome::Failed(
                kind,
                OpError::Refused {
                    code,
                    message: "no".into(),
                    retry_after: None,
                    last_known_state: String::new(),
                },
            ),
            Fate::KilledAfter => {
                work(self);
                return;
            }
            Fate::KilledBefore => return,
        };
        self.record = settle(self.now, &self.record, self.wanted.revision, outcome).0;
    }
}

/// Deciding twice at the same moment comes to the same, except that what was begun is then open.
fn agree(first: &Decision, second: &Decision) -> bool {
    match first.act {
        Act::Create | Act::Delete => second.act == Act::Resolve,
        Act::Nothing | Act::Resolve | Act::Drain | Act::Abort | Act::Forget => {
            first.act == second.act && first.record.phase == second.record.phase
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    /// proves: MCH-07
    #[test]
    fn one_machine_and_none_forgotten(steps in prop::collection::vec(steps(), 0..80)) {
        let mut world = World::new();
        for step in &steps {
            if !world.forgotten {
                world.step(step);
            }
        }
        // From here on all goes well: it comes up, or fails for good, and then it is deleted.
        let well = |delete| Step {
            seconds: 2000,
            fate: Fate::Works,
            node: NodeHealth::Healthy,
            drained: true,
            delete,
            revision: 9,
        };
        for _ in 0..20 {
            if !world.forgotten {
                world.step(&well(false));
            }
        }
        let settled = matches!(world.record.phase, Phase::Running | Phase::Failed);
        prop_assert!(world.forgotten || settled || world.wanted.delete, "{:?}", world.record);
        for _ in 0..20 {
            if !world.forgotten {
                world.step(&well(true));
            }
        }
        prop_assert!(world.forgotten && world.there == 0, "{:?}", world.record);
    }
}

//! What controllers did, counted.
//!
//! One set for the whole process: controllers are started in many places, and each term of a leader
//! starts them anew, so what counts them must outlive them.
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::LazyLock;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug)]
struct All {
    depth: Family<Of, Gauge>,
    durations: Family<Of, Histogram, fn() -> Histogram>,
    reconciles: Family<Ended, Counter>,
}

static ALL: LazyLock<All> = LazyLock::new(|| All {
    depth: Family::default(),
    durations: Family::new_with_constructor(buckets),
    reconciles: Family::default(),
});

/// From 100 µs (nothing to do) to 13 s (a peer that does not answer).
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

/// Shows what controllers do under the names `orrery_controller_*`.
pub fn register(registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("orrery_controller");
    let All { depth, durations, reconciles } = ALL.clone();
    registry.register("queue_depth", "Keys that wait, are delayed or are in flight", depth);
    registry.register_with_unit(
        "reconcile_duration",
        "How long one look at a key took",
        Unit::Seconds,
        durations,
    );
    registry.register("reconciles", "Keys that were looked at, by outcome", reconciles);
}

/// How a look at a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
    Panicked,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
        }
    }
}

/// Those of one controller, found once: it counts at every turn. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    controller: &'static str,
    depth: Gauge,
    durations: Histogram,
    done: Counter,
}

impl Stats {
    pub(crate) fn of(controller: &'static str) -> Self {
        let of = Of { controller };
        Self {
            controller,
            depth: ALL.depth.get_or_create(&of).clone(),
            durations: ALL.durations.get_or_create(&of).clone(),
            done: ended(controller, Outcome::Done),
        }
    }

    pub(crate) fn depth(&self, keys: usize) {
        self.depth.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    pub(crate) fn took(&self, duration: Duration) {
        self.durations.observe(duration.as_secs_f64());
    }

    pub(crate) fn ended(&self, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.done.inc(),
            Outcome::Failed | Outcome::Panicked => ended(self.controller, outcome).inc(),
        };
    }
}

fn ended(controller: &'static str, outcome: Outcome) -> Counter {
    ALL.reconciles.get_or_create(&Ended { controller, outcome: outcome.as_str() }).clone()
}

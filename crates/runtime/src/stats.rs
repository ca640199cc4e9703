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
struct Stats {
    depth: Family<Of, Gauge>,
    durations: Family<Of, Histogram, fn() -> Histogram>,
    reconciles: Family<Ended, Counter>,
}

static STATS: LazyLock<Stats> = LazyLock::new(|| Stats {
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
    let Stats { depth, durations, reconciles } = STATS.clone();
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

pub(crate) fn depth(controller: &'static str, keys: usize) {
    let keys = i64::try_from(keys).unwrap_or(i64::MAX);
    STATS.depth.get_or_create(&Of { controller }).set(keys);
}

pub(crate) fn took(controller: &'static str, duration: Duration) {
    STATS.durations.get_or_create(&Of { controller }).observe(duration.as_secs_f64());
}

pub(crate) fn ended(controller: &'static str, outcome: Outcome) {
    let outcome = outcome.as_str();
    STATS.reconciles.get_or_create(&Ended { controller, outcome }).inc();
}

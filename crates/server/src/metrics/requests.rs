//! Requests of the API in figures.
use crate::gate::{Asked, Transport};
use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    transport: &'static str,
    verb: &'static str,
    kind: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timed {
    transport: &'static str,
    verb: &'static str,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Via {
    transport: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

/// Clones share the figures.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    answered: Family<Answered, Counter>,
    durations: Family<Timed, Histogram, fn() -> Histogram>,
    in_flight: InFlight,
    watchers: Family<OfKind, Gauge>,
    /// Figures that were found once, by kind; as many as there are figures.
    known: Arc<RwLock<HashMap<String, Vec<Known>>>>,
}

/// Requests that are worked on, by the way that they came.
#[derive(Clone, Debug)]
struct InFlight {
    rest: Gauge,
    grpc: Gauge,
    commander: Gauge,
}

impl InFlight {
    fn of(family: &Family<Via, Gauge>) -> Self {
        let via = |transport: Transport| {
            family.get_or_create_owned(&Via { transport: transport.as_str() })
        };
        let (rest, grpc) = (via(Transport::Rest), via(Transport::Grpc));
        Self { rest, grpc, commander: via(Transport::Commander) }
    }

    fn via(&self, transport: Transport) -> &Gauge {
        match transport {
            Transport::Rest => &self.rest,
            Transport::Grpc => &self.grpc,
            Transport::Commander => &self.commander,
        }
    }
}

/// What one way of asking and one answer to it are counted by.
#[derive(Clone, Debug)]
struct Known {
    transport: Transport,
    verb: &'static str,
    code: u16,
    in_flight: Gauge,
    durations: Histogram,
    answered: Counter,
}

/// From 250 µs (read from memory) to 8 s (a store that does not answer).
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(0.00025, 2.0, 16))
}

impl RequestMetrics {
    pub fn new(registry: &mut Registry) -> Self {
        let in_flight = Family::default();
        let metrics = Self {
            answered: Family::default(),
            durations: Family::new_with_constructor(buckets),
            in_flight: InFlight::of(&in_flight),
            watchers: Family::default(),
            known: Arc::default(),
        };
        let registry = registry.sub_registry_with_prefix("orrery_api");
        let Self { answered, durations, watchers, .. } = metrics.clone();
        registry.register("requests", "Requests that were answered, by code of HTTP", answered);
        registry.register_with_unit(
            "request_duration",
            "How long requests took, watches until they began",
            Unit::Seconds,
            durations,
        );
        registry.register("requests_in_flight", "Requests that are worked on", in_flight);
        registry.register("watchers", "Watches that are open", watchers);
        metrics
    }

    pub fn began(&self, transport: Transport) {
        self.in_flight.via(transport).inc();
    }

    pub fn ended(&self, transport: Transport, asked: &Asked, code: u16, took: Duration) {
        let counted = |all: &Vec<Known>| {
            let known = all.iter().find(|known| known.is(transport, asked.verb, code));
            known.map(|known| known.count(took)).is_some()
        };
        if self.known.read().get(&asked.kind).is_some_and(counted) {
            return;
        }
        let known = self.find(transport, asked, code);
        known.count(took);
        let mut all = self.known.write();
        let all = all.entry(asked.kind.clone()).or_default();
        if !all.iter().any(|known| known.is(transport, asked.verb, code)) {
            all.push(known);
        }
    }

    fn find(&self, transport: Transport, asked: &Asked, code: u16) -> Known {
        let (via, verb, kind) = (transport.as_str(), asked.verb, &asked.kind);
        let timed = Timed { transport: via, verb, kind: kind.clone() };
        let answered = Answered { transport: via, verb, kind: kind.clone(), code };
        Known {
            transport,
            verb,
            code,
            in_flight: self.in_flight.via(transport).clone(),
            durations: self.durations.get_or_create_owned(&timed),
            answered: self.answered.get_or_create_owned(&answered),
        }
    }

    pub fn watching(&self, kind: &str) -> Watching {
        let watchers = self.watchers.get_or_create_owned(&OfKind { kind: kind.to_owned() });
        watchers.inc();
        Watching { watchers }
    }
}

impl Known {
    fn is(&self, transport: Transport, verb: &str, code: u16) -> bool {
        self.transport == transport && self.verb == verb && self.code == code
    }

    fn count(&self, took: Duration) {
        self.in_flight.dec();
        self.durations.observe(took.as_secs_f64());
        self.answered.inc();
    }
}

/// An open watch, counted until it is dropped.
#[derive(Debug)]
pub struct Watching {
    watchers: Gauge,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watchers.dec();
    }
}

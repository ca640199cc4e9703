//! Figures that are read when somebody asks for them.
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

type Read = Box<dyn Fn() -> Option<f64> + Send + Sync>;

/// One figure and the way to it; absent when it cannot be read.
struct Reading {
    name: &'static str,
    help: &'static str,
    grows: bool,
    read: Read,
}

/// A figure that goes up and down.
pub fn gauge(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> Option<f64> + Send + Sync + 'static,
) {
    let reading = Reading { name, help, grows: false, read: Box::new(read) };
    registry.register_collector(Box::new(reading));
}

/// A figure that only grows; `_total` is put behind its name.
pub fn counter(
    registry: &mut Registry,
    name: &'static str,
    help: &'static str,
    read: impl Fn() -> Option<f64> + Send + Sync + 'static,
) {
    let reading = Reading { name, help, grows: true, read: Box::new(read) };
    registry.register_collector(Box::new(reading));
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(value) = (self.read)() else { return Ok(()) };
        if self.grows {
            let metric = ConstCounter::new(value);
            let kind = prometheus_client::metrics::MetricType::Counter;
            return metric.encode(encoder.encode_descriptor(self.name, self.help, None, kind)?);
        }
        let metric = ConstGauge::new(value);
        let kind = prometheus_client::metrics::MetricType::Gauge;
        metric.encode(encoder.encode_descriptor(self.name, self.help, None, kind)?)
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("name", &self.name).finish_non_exhaustive()
    }
}

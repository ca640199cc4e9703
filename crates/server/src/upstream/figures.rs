//! What is kept of upstreams, in figures: those of each cache group, looked up when somebody asks.
use orrery_hub::Hub;
use orrery_hub::cache::Figures;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub fn register(registry: &mut Registry, hub: &Hub) {
    registry.register_collector(Box::new(Groups(hub.clone())));
}

struct Groups(Hub);

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Groups")
    }
}

/// A figure of a group: its name, what it says, and whether it only grows.
type Figure = (&'static str, &'static str, bool, fn(&Figures) -> u64);

const FIGURES: [Figure; 5] = [
    ("hits", "Questions answered from what is kept of an upstream", true, |it| it.hits),
    ("misses", "Questions that had to be asked of an upstream", true, |it| it.misses),
    ("evictions", "Answers that had to go because others came", true, |it| it.evictions),
    ("entries", "Answers that are kept", false, |it| it.entries as u64),
    ("size_bytes", "Bytes of the answers that are kept", false, |it| it.bytes as u64),
];

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Groups {
    /// One that does not move while its upstream does tells that changes there are not heard of.
    fn encode_heard(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (name, help) = (
            "orrery_hub_cache_heard_revision",
            "Of the upstream, up to which its changes were heard of",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for storage in self.0.storages() {
            let Some(cache) = storage.cache() else { continue };
            let storage = storage.kind().qualified_plural();
            let labels = [("storage", storage.as_str())];
            gauge(cache.heard().0).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Groups {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut groups = Vec::new();
        for storage in self.0.storages() {
            let figures = storage.cache().map(|cache| cache.figures());
            let named = |(group, figures)| (storage.kind().qualified_plural(), group, figures);
            groups.extend(figures.into_iter().flatten().map(named));
        }
        if groups.is_empty() {
            return Ok(());
        }
        groups.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
        for (name, help, grows, of) in FIGURES {
            let name = format!("orrery_hub_cache_{name}");
            let metric = if grows { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(&name, help, None, metric)?;
            for (storage, group, figures) in &groups {
                let labels = [("storage", storage.as_str()), ("group", *group)];
                let encoder = family.encode_family(&labels)?;
                match grows {
                    true => ConstCounter::new(of(figures)).encode(encoder)?,
                    false => gauge(of(figures)).encode(encoder)?,
                }
            }
        }
        self.encode_heard(&mut encoder)
    }
}

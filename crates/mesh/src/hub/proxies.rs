//! The proxies that are connected here, as resources that people and other servers can see.
//!
//! What a proxy has goes past many times a second; what is written is bounded: transitions soon, and
//! the rest little by little. A proxy that is behind in the store is never behind in fact.
use crate::control::{Control, ProxyKey, ProxyStatus};
use crate::xds::session::KindStatus;
use futures::StreamExt as _;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::mesh::v1::{self as api, Proxy, ProxyConfig, ProxyPort, ProxySpec};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::xxh3_64;

/// How often is written, and how much of what at once.
const ROUND: Duration = Duration::from_millis(500);
const TRANSITIONS_MAX: usize = 200;
const UPDATES_MAX: usize = 20;
const WRITES_AT_ONCE: usize = 16;
/// Names of resources are DNS labels; room is left for the part that tells instances apart.
const SERVICE_PART_MAX: usize = 46;

/// Writes Proxy resources.
pub struct ProxyWriter {
    control: Arc<Control>,
    proxies: Resources<Proxy>,
    clock: Arc<dyn Clock>,
    server: String,
    written: HashMap<ProxyKey, Proxy>,
}

impl ProxyWriter {
    pub fn new(hub: &Hub, control: Arc<Control>, server: &str) -> Result<Self, Error> {
        Ok(Self {
            control,
            proxies: hub.resources()?,
            clock: hub.clock().clone(),
            server: server.to_owned(),
            written: HashMap::new(),
        })
    }

    /// Writes until told to stop. What is there then stays: the proxies will be back, here or at
    /// another server, and the leader takes away those that are not.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut touched = self.control.touched();
        let mut due: BTreeSet<ProxyKey> = BTreeSet::new();
        let mut round = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                keys = touched.next() => due.extend(keys),
                () = tokio::time::sleep_until(round), if !due.is_empty() => {
                    due = self.round(due).await;
                    round = Instant::now() + ROUND;
                }
            }
        }
    }

    /// Writes what there is room for, transitions first, and returns the rest.
    async fn round(&mut self, due: BTreeSet<ProxyKey>) -> BTreeSet<ProxyKey> {
        let mut transitions = Vec::new();
        let mut updates = Vec::new();
        for key in due {
            let wanted = self.wanted(&key);
            let state = |proxy: &Proxy| proxy.status.as_ref().map(|status| status.state.clone());
            let old = self.written.get(&key);
            if old == wanted.as_ref() {
                continue;
            }
            let is_transition = old.and_then(state) != wanted.as_ref().and_then(state);
            if is_transition {
                transitions.push((key, wanted))
            } else {
                updates.push((key, wanted))
            }
        }
        let late_transitions = transitions.split_off(transitions.len().min(TRANSITIONS_MAX));
        let late_updates = updates.split_off(updates.len().min(UPDATES_MAX));
        let this = &*self;
        let writes = transitions.into_iter().chain(updates).map(|(key, wanted)| async move {
            let outcome = this.write(&key, wanted.as_ref()).await;
            (key, wanted, outcome)
        });
        let outcomes: Vec<_> =
            futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).collect().await;
        let mut rest: BTreeSet<ProxyKey> =
            late_transitions.into_iter().chain(late_updates).map(|(key, _)| key).collect();
        for (key, wanted, outcome) in outcomes {
            match (outcome, wanted) {
                (Ok(()), Some(wanted)) => drop(self.written.insert(key, wanted)),
                (Ok(()), None) => drop(self.written.remove(&key)),
                (Err(error), _) => {
                    tracing::warn!(service = %key.service, %error, "cannot write a proxy, will try again");
                    rest.insert(key);
                }
            }
        }
        rest
    }

    fn wanted(&self, key: &ProxyKey) -> Option<Proxy> {
        let streams = self.control.status_of(key);
        let first = streams.first()?;
        let old = self.written.get(key).and_then(|proxy| proxy.status.as_ref());
        let mut status = describe(&streams);
        status.connected_at =
            old.and_then(|old| old.connected_at).or_else(|| Some(self.clock.now()));
        let (at_first, further): (Vec<_>, Vec<_>) =
            first.endpoints.iter().partition(|one| one.port.is_none());
        let at_first = at_first.first();
        let ports = further.into_iter().filter_map(|one| {
            let port = one.port.as_ref()?.to_string();
            Some(ProxyPort { port: Some(port), endpoint: Some(one.endpoint.to_string()) })
        });
        Some(Proxy {
            metadata: Some(ObjectMeta {
                name: name(key),
                project: key.service.project().to_owned(),
                ..ObjectMeta::default()
            }),
            spec: Some(ProxySpec {
                service: Some(key.service.name().to_owned()),
                instance: Some(key.instance.to_string()),
                server: Some(self.server.clone()),
                endpoint: at_first.map(|one| one.endpoint.to_string()),
                ports: ports.collect(),
            }),
            status: Some(status),
            ..Proxy::default()
        })
    }

    /// A project that is not there has nowhere to show a proxy; nobody would look for it either.
    async fn write(&self, key: &ProxyKey, wanted: Option<&Proxy>) -> Result<(), Error> {
        let Some(wanted) = wanted else { return self.remove(key).await };
        let outcome = match self.proxies.apply(wanted).await {
            Ok(_) => self.proxies.write_status(wanted).await.map(|_| ()),
            Err(error) => Err(error),
        };
        match outcome {
            Err(Error::ProjectNotFound { .. } | Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// Unless it is connected to another server by now.
    async fn remove(&self, key: &ProxyKey) -> Result<(), Error> {
        let name = ObjectName::new(key.service.project(), name(key));
        let found = self.proxies.find(&name).await?;
        let is_ours =
            found.and_then(|proxy| proxy.spec).is_some_and(|spec| *spec.server() == self.server);
        if is_ours { self.proxies.delete(&name).await } else { Ok(()) }
    }
}

/// The same on every server, so that a proxy that moves is still the same resource.
fn name(key: &ProxyKey) -> String {
    let service: String = key.service.name().chars().take(SERVICE_PART_MAX).collect();
    let service = service.trim_end_matches('-');
    format!("{service}-{:016x}", xxh3_64(key.instance.as_bytes()))
}

/// All streams of one proxy as one status.
fn describe(streams: &[ProxyStatus]) -> api::ProxyStatus {
    let mut configs: BTreeMap<String, ProxyConfig> = BTreeMap::new();
    for one in streams.iter().flat_map(|stream| &stream.kinds) {
        let config = configs.entry(one.kind.to_string()).or_default();
        add(config, one);
    }
    let configs: Vec<ProxyConfig> = configs.into_values().collect();
    let (state, reason) = judge(&configs);
    let slowest = configs.iter().filter_map(|config| config.convergence_ms).max();
    let unknown: BTreeSet<String> =
        streams.iter().flat_map(|stream| stream.unknown_types.iter().cloned()).collect();
    let findings: BTreeSet<String> =
        streams.iter().flat_map(|stream| stream.findings.iter().cloned()).collect();
    api::ProxyStatus {
        state: state.to_owned(),
        reason,
        convergence: slowest.map(|ms| format!("{ms}ms")).unwrap_or_default(),
        address: streams
            .iter()
            .find_map(|one| one.address)
            .map(|at| at.to_string())
            .unwrap_or_default(),
        configs,
        unknown_types: unknown.into_iter().collect(),
        findings: findings.into_iter().collect(),
        ..api::ProxyStatus::default()
    }
}

/// Streams of one kind add up, as versions within a stream do.
fn add(config: &mut ProxyConfig, one: &KindStatus) {
    let sum = |text: &str, more: Option<u64>| match more {
        None => text.to_owned(),
        Some(more) => {
            let known = u64::from_str_radix(text, 16).unwrap_or_default();
            format!("{:016x}", known.wrapping_add(more))
        }
    };
    let progress = &one.progress;
    config.r#type = one.kind.to_string();
    config.wanted = sum(&config.wanted, Some(one.wanted));
    config.sent = sum(&config.sent, progress.sent);
    config.acked = sum(&config.acked, progress.acked);
    if let Some(nack) = &progress.nacked {
        config.refused = format!("{:016x}", nack.version);
        config.error.clone_from(&nack.message);
        config.refusals = i32::try_from(nack.count).unwrap_or(i32::MAX);
    }
    let took = progress.convergence.map(|took| i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    config.convergence_ms = config.convergence_ms.max(took);
}

fn judge(configs: &[ProxyConfig]) -> (&'static str, String) {
    if let Some(refused) = configs.iter().find(|config| !config.refused.is_empty()) {
        return ("Refused", format!("{}: {}", refused.r#type, refused.error));
    }
    let behind: Vec<&str> = configs
        .iter()
        .filter(|config| config.acked != config.wanted)
        .map(|config| config.r#type.as_str())
        .collect();
    match behind.is_empty() {
        true => ("Current", String::new()),
        false => ("Pending", format!("has not acknowledged {}", behind.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::{Kind, Nack, Progress};

    fn mk(kind: Kind, wanted: u64, acked: Option<u64>, refused: Option<&str>) -> KindStatus {
        let nacked = refused.map(|message| Nack {
            version: wanted,
            message: message.to_owned(),
            at: Instant::now(),
            count: 2,
        });
        let mut progress = Progress::default();
        progress.sent = Some(wanted);
        progress.acked = acked;
        progress.nacked = nacked;
        progress.convergence = acked.map(|_| Duration::from_millis(7));
        KindStatus { kind, wanted, progress }
    }

    fn mk_stream(kinds: Vec<KindStatus>) -> ProxyStatus {
        ProxyStatus {
            service: "shop/books".parse().unwrap(),
            instance: "one".to_owned(),
            address: None,
            connected_for: Duration::ZERO,
            endpoints: Vec::new(),
            kinds,
            unknown_types: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    #[track_caller]
    fn check(streams: Vec<Vec<KindStatus>>, state: &str, reason: &str) {
        let streams: Vec<_> = streams.into_iter().map(mk_stream).collect();
        let status = describe(&streams);
        assert_eq!((status.state.as_str(), status.reason.as_str()), (state, reason));
    }

    #[tokio::test]
    async fn a_proxy_is_current_pending_or_says_what_it_refused() {
        check(vec![], "Current", "");
        check(vec![vec![mk(Kind::Cluster, 3, Some(3), None)]], "Current", "");
        let behind = vec![mk(Kind::Cluster, 3, Some(3), None), mk(Kind::Route, 4, None, None)];
        check(vec![behind], "Pending", "has not acknowledged routes");
        let refused = vec![mk(Kind::Route, 4, Some(3), Some("bad regex"))];
        check(vec![refused], "Refused", "routes: bad regex");
        let two = vec![
            vec![mk(Kind::Endpoints, 3, Some(3), None)],
            vec![mk(Kind::Endpoints, 4, Some(4), None)],
        ];
        check(two.clone(), "Current", "");
        let streams: Vec<_> = two.into_iter().map(mk_stream).collect();
        let status = describe(&streams);
        assert_eq!((status.configs.len(), status.convergence.as_str()), (1, "7ms"));
        assert_eq!(status.configs[0].wanted, "0000000000000007");
    }

    #[test]
    fn names_are_labels_and_tell_instances_apart() {
        let key = |service: &str, instance: &str| ProxyKey {
            service: service.parse().unwrap(),
            instance: instance.into(),
        };
        let long = format!("shop/{}", "a".repeat(63));
        for service in ["shop/books", long.as_str()] {
            assert!(orrery_api::is_name(&name(&key(service, "Some Host/17"))));
            assert_ne!(name(&key(service, "a")), name(&key(service, "b")));
        }
    }
}

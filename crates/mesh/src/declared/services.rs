//! Services: their ports, and how calls to them behave.
use super::{Declarations, Reading, Subject, service_name};
use crate::names::{PortName, ServiceName};
use crate::topology::{
    AppProtocol, HealthCheck, OutlierDetection, Retries, Service, ServicePort, TrafficSettings,
};
use orrery_api::{Object, Violation};
use orrery_proto::mesh::v1::{MeshPort, MeshService, MeshServiceSpec};
use std::collections::BTreeSet;
use std::time::Duration;

/// As the definition of the kind has them; for specs that were stored without.
const FAILURES_DEFAULT: u32 = 5;
const EJECTION_DEFAULT: Duration = Duration::from_secs(30);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
const ANSWER_DEFAULT: Duration = Duration::from_secs(1);
const UNHEALTHY_DEFAULT: u32 = 3;
/// Longer waits are a mistake, not a wish.
const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);

impl Declarations {
    pub(super) fn read_services(&self, reading: &mut Reading) {
        for (name, declared) in &self.services {
            let spec = declared.spec.clone().unwrap_or_default();
            for port in unreachable(&spec) {
                let text = format!(
                    "port {} has no frontingPort, so the proxies in front of instances do not take it; \
                     it has no endpoints",
                    port.name()
                );
                reading.note(Subject::Service(name.clone()), text);
            }
            match service_name(&name.project, &name.name) {
                Ok(name) => reading.services.push(service(name, &spec, declared_s(declared))),
                Err(error) => reading.note(Subject::Service(name.clone()), error),
            }
        }
    }
}

/// Ports that no proxy takes traffic for, where proxies stand in front of instances.
fn unreachable(spec: &MeshServiceSpec) -> impl Iterator<Item = &MeshPort> {
    let further = spec.ports.iter().skip(1).filter(|_| spec.fronting.is_some());
    further.filter(|port| port.fronting_port.is_none())
}

fn service(name: ServiceName, spec: &MeshServiceSpec, declared_s: u64) -> Service {
    let ports = spec.ports.iter().map(port).collect();
    Service { name, ports, encrypted: spec.encrypted(), traffic: traffic(spec), declared_s }
}

fn declared_s(service: &MeshService) -> u64 {
    let created = service.metadata.as_ref().and_then(|metadata| metadata.creation_timestamp);
    created.and_then(|created| u64::try_from(created.seconds).ok()).unwrap_or_default()
}

/// A port is called by its number as declared: that is what declarations compare.
fn port(port: &MeshPort) -> ServicePort {
    let protocol = match port.protocol() {
        "tcp" => AppProtocol::Tcp,
        "http2" => AppProtocol::Http2,
        // Also what was stored before there was a choice.
        _ => AppProtocol::Http,
    };
    let label = port.name.clone().unwrap_or_else(|| port.port().to_string());
    ServicePort { name: PortName(port.port().to_string()), label: PortName(label), protocol }
}

fn traffic(spec: &MeshServiceSpec) -> TrafficSettings {
    let retries = spec.retries.as_ref().map(|retries| Retries {
        attempts: count(retries.attempts),
        per_try_timeout: retries.per_try_timeout.as_ref().and_then(duration),
    });
    let outlier_detection = spec.outlier_detection.as_ref().map(|outlier| OutlierDetection {
        consecutive_failures: outlier
            .consecutive_failures
            .map_or(FAILURES_DEFAULT, |n| count(Some(n))),
        ejection_time: or(&outlier.ejection_time, EJECTION_DEFAULT),
    });
    let health_check = spec.health_check.as_ref().map(|check| HealthCheck {
        path: check.path.clone(),
        interval: or(&check.interval, INTERVAL_DEFAULT),
        timeout: or(&check.timeout, ANSWER_DEFAULT),
        unhealthy_threshold: check
            .unhealthy_threshold
            .map_or(UNHEALTHY_DEFAULT, |n| count(Some(n))),
        healthy_threshold: check.healthy_threshold.map_or(1, |n| count(Some(n))),
    });
    TrafficSettings {
        timeout: spec.timeout.as_ref().and_then(duration),
        connect_timeout: spec.connect_timeout.as_ref().and_then(duration),
        retries,
        outlier_detection,
        health_check,
    }
}

fn count(number: Option<i32>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1).max(1)
}

fn or(value: &Option<prost_types::Duration>, default: Duration) -> Duration {
    value.as_ref().and_then(duration).unwrap_or(default)
}

/// `None` for what is no time to wait: validation refuses it, and an old object may still have it.
fn duration(value: &prost_types::Duration) -> Option<Duration> {
    let duration = Duration::try_from(*value).ok()?;
    (Duration::ZERO < duration && duration <= DURATION_MAX).then_some(duration)
}

/// What a service must be like beyond its shape.
pub fn validate(object: &Object, _: Option<&Object>) -> Vec<Violation> {
    let Ok(service) = object.typed::<MeshService>() else { return Vec::new() };
    let Some(spec) = service.spec else { return Vec::new() };
    let mut found = Vec::new();
    let mut numbers = BTreeSet::new();
    for (index, port) in spec.ports.iter().enumerate() {
        if port.port.is_some_and(|number| !numbers.insert(number)) {
            let path = format!("spec.ports[{index}].port");
            found.push(Violation::invalid(path, port.port(), "must be unique within the service"));
        }
    }
    found.extend(clashes(&spec));
    let retries = spec.retries.as_ref().and_then(|retries| retries.per_try_timeout);
    let outlier = spec.outlier_detection.as_ref().and_then(|outlier| outlier.ejection_time);
    let check = spec.health_check.as_ref();
    let durations = [
        ("spec.timeout", spec.timeout),
        ("spec.connectTimeout", spec.connect_timeout),
        ("spec.retries.perTryTimeout", retries),
        ("spec.outlierDetection.ejectionTime", outlier),
        ("spec.healthCheck.interval", check.and_then(|check| check.interval)),
        ("spec.healthCheck.timeout", check.and_then(|check| check.timeout)),
    ];
    for (path, value) in durations {
        if value.is_some_and(|value| duration(&value).is_none()) {
            let given = value.map(|value| value.seconds).unwrap_or_default();
            let why = "must be longer than nothing, and at most a day";
            found.push(Violation::invalid(path, format_args!("{given}s"), why));
        }
    }
    found
}

/// One port of a proxy takes the traffic of one port of the service.
fn clashes(spec: &MeshServiceSpec) -> Vec<Violation> {
    let mut taken: BTreeSet<i32> = spec.fronting.iter().filter_map(|one| one.port).collect();
    let mut found = Vec::new();
    for (index, port) in spec.ports.iter().enumerate() {
        let Some(number) = port.fronting_port else { continue };
        let path = format!("spec.ports[{index}].frontingPort");
        if spec.fronting.is_none() {
            let why = "needs spec.fronting: without it no proxy stands in front of instances";
            found.push(Violation::invalid(path, number, why));
        } else if index == 0 {
            let why = "must not be set: the first port is taken on spec.fronting.port";
            found.push(Violation::invalid(path, number, why));
        } else if !taken.insert(number) {
            found.push(Violation::invalid(path, number, "must be unique within the service"));
        }
    }
    found
}

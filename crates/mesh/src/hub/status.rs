//! What people see of services, splits and targets: pure functions from what is known to a status.
use super::sidecars::Obstacle;
use crate::catalog::Problem;
use crate::declared::{Findings, Subject};
use crate::names::ServiceName;
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::{MeshService, MeshServiceSpec, MeshServiceStatus};
use orrery_proto::meta::v1::{Condition, ObjectMeta};
use orrery_proto::smi;
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// What is known of the sidecars of a service.
pub struct Sidecars {
    pub ready: usize,
    pub wanted: usize,
    /// What one says that does not take traffic.
    pub said: Option<String>,
    pub obstacle: Option<Obstacle>,
}

/// What is known of a service.
#[derive(Default)]
pub struct Known<'a> {
    pub endpoints: usize,
    pub proxies: usize,
    pub findings: &'a [String],
    /// Places that cannot tell any more where its instances are, and why.
    pub stale: &'a [String],
    /// Where some are asked for.
    pub sidecars: Option<Sidecars>,
}

pub fn of_service(service: &MeshService, known: &Known<'_>, now: Timestamp) -> MeshServiceStatus {
    let mut status = service.status.clone().unwrap_or_default();
    let (state, reason, message) = judge(service.spec.as_ref(), known);
    state.clone_into(&mut status.state);
    reason.clone_into(&mut status.reason);
    status.endpoints = i32::try_from(known.endpoints).unwrap_or(i32::MAX);
    status.proxies = i32::try_from(known.proxies).unwrap_or(i32::MAX);
    status.observed_generation = generation(&service.metadata);
    let ready = condition("Ready", state == "Ready", or(reason, "Ready"), message);
    conditions::set(&mut status.conditions, ready, now);
    let current = match known.stale {
        [] => condition("EndpointsCurrent", true, "Current", String::new()),
        stale => {
            let message = format!("what was known last is in use: {}", stale.join("; "));
            condition("EndpointsCurrent", false, "Stale", message)
        }
    };
    conditions::set(&mut status.conditions, current, now);
    match &known.sidecars {
        Some(sidecars) => {
            status.sidecars = format!("{}/{}", sidecars.ready, sidecars.wanted);
            conditions::set(&mut status.conditions, of_sidecars(sidecars), now);
        }
        None => {
            status.sidecars = String::new();
            status.conditions.retain(|condition| condition.r#type != SIDECARS_READY);
        }
    }
    status
}

const SIDECARS_READY: &str = "SidecarsReady";

fn of_sidecars(sidecars: &Sidecars) -> Condition {
    let count = sidecars.count();
    match &sidecars.obstacle {
        Some(obstacle) => {
            condition(SIDECARS_READY, false, obstacle.reason, obstacle.message.clone())
        }
        None if sidecars.are_missing() => condition(SIDECARS_READY, false, "Starting", count),
        None => condition(SIDECARS_READY, true, "Ready", count),
    }
}

impl Sidecars {
    fn are_missing(&self) -> bool {
        self.ready < self.wanted
    }

    /// How many there are, and why not more.
    fn count(&self) -> String {
        let count = format!("{} of {} sidecars take traffic", self.ready, self.wanted);
        match &self.said {
            Some(said) => format!("{count}; {said}"),
            None => count,
        }
    }
}

/// The state of a service, the reason of it, and both in words. Ports say that a service takes requests: one with
/// none only calls others, and lacks nothing.
fn judge(
    spec: Option<&MeshServiceSpec>,
    known: &Known<'_>,
) -> (&'static str, &'static str, String) {
    let has_ports = spec.is_some_and(|spec| !spec.ports.is_empty());
    let sidecars = known.sidecars.as_ref();
    if let Some(obstacle) = sidecars.and_then(|sidecars| sidecars.obstacle.as_ref()) {
        return ("Incomplete", obstacle.reason, obstacle.message.clone());
    }
    // One without requests may have a workload all the same: its sidecars are beside that.
    let workload = spec.and_then(|spec| spec.workload.as_deref()).filter(|_| sidecars.is_none());
    let starting = sidecars.filter(|sidecars| sidecars.are_missing());
    if let (Some(starting), [], 0) = (starting, known.findings, known.endpoints) {
        return ("Waiting", "SidecarsStarting", starting.count());
    }
    match (known.findings, known.endpoints, workload) {
        ([], _, None) if !has_ports => (
            "Ready",
            "CallsOnly",
            "it has no ports: it takes no requests, and may call others".into(),
        ),
        ([], _, Some(workload)) if !has_ports => {
            let text =
                format!("it has no ports, so workload {workload} gets no requests; declare them");
            ("Incomplete", "NotInEffect", text)
        }
        ([], 0, _) => ("Waiting", "NoEndpoints", NO_ENDPOINTS.into()),
        ([], _, _) => ("Ready", "", "requests go to its instances".into()),
        (findings, _, _) => ("Incomplete", "NotInEffect", findings.join("; ")),
    }
}

const NO_ENDPOINTS: &str =
    "no instance is known to take requests (a service that only calls others has no ports)";

/// Of a split or a target.
pub fn of_declaration(
    metadata: &Option<ObjectMeta>,
    old: &Option<smi::Status>,
    findings: &[String],
    now: Timestamp,
) -> smi::Status {
    let mut status = old.clone().unwrap_or_default();
    let is_whole = findings.is_empty();
    status.state = if is_whole { "Accepted" } else { "Incomplete" }.to_owned();
    status.observed_generation = generation(metadata);
    let (reason, message) = match is_whole {
        true => ("InEffect", "all of it is in effect".to_owned()),
        false => ("NotInEffect", findings.join("; ")),
    };
    let accepted = condition("Accepted", is_whole, reason, message);
    conditions::set(&mut status.conditions, accepted, now);
    status
}

fn condition(name: &str, holds: bool, reason: &str, message: String) -> Condition {
    Condition {
        r#type: name.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn generation(metadata: &Option<ObjectMeta>) -> i64 {
    metadata.as_ref().map(|metadata| metadata.generation).unwrap_or_default()
}

/// Adds what the catalog found to what the reading found, each where people will look for it.
pub fn with_problems(mut findings: Findings, problems: &[Problem]) -> Findings {
    for problem in problems {
        for subject in subjects(problem) {
            findings.entry(subject).or_default().push(problem.to_string());
        }
    }
    findings
}

fn subjects(problem: &Problem) -> Vec<Subject> {
    let split = |service: &ServiceName, name: &str| {
        Subject::Split(ObjectName::new(service.project(), name))
    };
    let service =
        |name: &ServiceName| Subject::Service(ObjectName::new(name.project(), name.name()));
    match problem {
        Problem::NamesItself { split: name, root } | Problem::NoWeight { split: name, root } => {
            vec![split(root, name)]
        }
        Problem::MissingBackend { split: name, backend } => vec![split(backend, name)],
        Problem::MissingPort { split: name, root, .. } => vec![split(root, name)],
        Problem::Overlap { first, second, root, .. } => {
            vec![split(root, first), split(root, second)]
        }
        Problem::BadRegex { service: name, .. } => vec![service(name)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::mesh::v1::MeshPort;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    fn mk_service(ports: usize, workload: Option<&str>) -> MeshService {
        let (ports, workload) = (vec![MeshPort::default(); ports], workload.map(str::to_owned));
        let spec = MeshServiceSpec { ports, workload, ..MeshServiceSpec::default() };
        MeshService { spec: Some(spec), ..MeshService::default() }
    }

    #[track_caller]
    fn check(endpoints: usize, findings: &[&str], state: &str, says: &str) {
        let findings: Vec<String> = findings.iter().map(|text| (*text).to_owned()).collect();
        let known = Known { endpoints, proxies: 1, findings: &findings, ..Known::default() };
        let status = of_service(&mk_service(1, None), &known, Timestamp::default());
        assert_eq!((status.state.as_str(), status.proxies), (state, 1));
        assert_eq!(status.conditions[0].message, says);
        assert_eq!(status.conditions[1].status, "True");
    }

    /// proves: MSH-03
    #[test]
    fn a_service_says_when_its_endpoints_are_old() {
        let stale = ["azure/one: 429".to_owned(), "kubernetes/west: timeout".to_owned()];
        let known = Known { endpoints: 2, stale: &stale, ..Known::default() };
        let status = of_service(&mk_service(1, None), &known, Timestamp::default());
        assert_eq!(status.state, "Ready", "traffic goes on to what was known");
        let said = &status.conditions[1];
        assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "Stale"));
        assert!(said.message.ends_with("azure/one: 429; kubernetes/west: timeout"));
    }

    #[test]
    fn a_service_says_why_it_takes_no_traffic() {
        check(2, &[], "Ready", "requests go to its instances");
        check(0, &[], "Waiting", NO_ENDPOINTS);
        check(2, &["a", "b"], "Incomplete", "a; b");
    }

    /// Whoever waits for all that they declared would wait for ever for it otherwise.
    #[test]
    fn a_service_that_only_calls_others_is_ready() {
        let known = Known::default();
        let of = |service: &MeshService| of_service(service, &known, Timestamp::default());
        for caller in [MeshService::default(), mk_service(0, None)] {
            let status = of(&caller);
            assert_eq!((status.state.as_str(), status.reason.as_str()), ("Ready", "CallsOnly"));
            assert_eq!(status.conditions[0].status, "True");
        }
        let status = of(&mk_service(0, Some("books")));
        assert_eq!(status.state, "Incomplete", "its workload waits for requests");
        assert!(status.conditions[0].message.contains("workload books"), "{status:?}");
    }

    #[track_caller]
    fn check_sidecars(
        ports: usize,
        (ready, wanted): (usize, usize),
        obstacle: Option<Obstacle>,
        (state, reason): (&str, &str),
    ) {
        let said = (ready < wanted).then(|| "node a: it ended with 127".to_owned());
        let sidecars = Some(Sidecars { ready, wanted, said, obstacle });
        let known = Known { endpoints: ready * ports, sidecars, ..Known::default() };
        let status = of_service(&mk_service(ports, Some("shop")), &known, Timestamp::default());
        assert_eq!((status.state.as_str(), status.reason.as_str()), (state, reason));
        assert_eq!(status.sidecars, format!("{ready}/{wanted}"));
        let said = &status.conditions[2];
        assert_eq!(said.r#type, SIDECARS_READY);
        assert_eq!(said.message.ends_with("; node a: it ended with 127"), ready < wanted);
        let good = ready == wanted && state != "Incomplete";
        assert_eq!(said.status, if good { "True" } else { "False" });
        let service = MeshService { status: Some(status), ..mk_service(ports, None) };
        let after = of_service(&service, &Known::default(), Timestamp::default());
        assert_eq!((after.conditions.len(), after.sidecars.as_str()), (2, ""));
    }

    #[test]
    fn a_service_tells_of_its_sidecars() {
        check_sidecars(1, (0, 2), None, ("Waiting", "SidecarsStarting"));
        check_sidecars(1, (1, 2), None, ("Ready", ""));
        check_sidecars(1, (0, 0), None, ("Waiting", "NoEndpoints"));
        check_sidecars(0, (0, 1), None, ("Waiting", "SidecarsStarting"));
        check_sidecars(0, (1, 1), None, ("Ready", "CallsOnly"));
        let taken = Obstacle::new("PortTaken", "port 15001".to_owned());
        check_sidecars(1, (1, 1), Some(taken), ("Incomplete", "PortTaken"));
    }

    #[test]
    fn problems_stand_at_the_resource_that_has_them() {
        let overlap = Problem::Overlap {
            first: "one".to_owned(),
            second: "two".to_owned(),
            root: name("shop/books"),
            backend: name("shop/v1"),
        };
        let regex = Problem::BadRegex { service: name("shop/books"), regex: "(".to_owned() };
        let problems = [overlap, regex];
        let found = with_problems(Findings::default(), &problems);
        let at = |subject: &Subject| found.get(subject).map(Vec::len);
        assert_eq!(at(&Subject::Split(ObjectName::new("shop", "one"))), Some(1));
        assert_eq!(at(&Subject::Split(ObjectName::new("shop", "two"))), Some(1));
        assert_eq!(at(&Subject::Service(ObjectName::new("shop", "books"))), Some(1));
    }

    #[test]
    fn a_declaration_is_in_effect_or_says_why_not() {
        let status = of_declaration(&None, &None, &[], Timestamp::default());
        assert_eq!(status.state, "Accepted");
        let findings = ["there is no service \"x\" (yet)".to_owned()];
        let status = of_declaration(&None, &Some(status), &findings, Timestamp::default());
        assert_eq!((status.state.as_str(), status.conditions.len()), ("Incomplete", 1));
        assert_eq!(status.conditions[0].message, findings[0]);
    }
}

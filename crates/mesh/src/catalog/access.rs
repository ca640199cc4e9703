//! Who may call whom.
use crate::names::ServiceName;
use crate::topology::{HttpMatch, ServicePort, TrafficTarget};

/// What a source may ask of a port of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Everything,
    /// Requests that match one of these; never empty.
    Only(Vec<HttpMatch>),
    Nothing,
}

/// What the targets of a destination allow. Open where none governs; closed to all but the named where one does,
/// on every port. Targets add up. `None` as the source is somebody whom none names. A port that takes anything is
/// open or closed: rules about requests say nothing of it.
pub fn access(
    source: Option<&ServiceName>,
    port: Option<&ServicePort>,
    targets: &[TrafficTarget],
) -> Access {
    let mut only = Vec::new();
    for target in targets {
        let is_meant = source.is_some_and(|source| target.sources.contains(source));
        if !is_meant || !target.opens(port) {
            continue;
        }
        let has_requests = port.is_none_or(|port| port.protocol.has_requests());
        match &target.rules {
            Some(rules) if has_requests => only.extend(rules.iter().cloned()),
            Some(_) | None => return Access::Everything,
        }
    }
    match (targets.is_empty(), only.is_empty()) {
        (true, _) => Access::Everything,
        (false, false) => Access::Only(only),
        (false, true) => Access::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PortName;
    use crate::topology::AppProtocol;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    /// `books<-a,b` lets a and b do everything; `books<-a:GET` lets a only GET; `books<-` nobody.
    /// `books<-a!` lets a connect to ports that take anything; `books<-a@81` opens port 81 only.
    fn mk_target(text: &str) -> TrafficTarget {
        let (text, connections) = match text.strip_suffix('!') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (text, ports) = match text.split_once('@') {
            Some((text, ports)) => (text, Some(ports.split(',').map(PortName::from).collect())),
            None => (text, None),
        };
        let (destination, rest) = text.split_once("<-").unwrap();
        let (sources, methods) = match rest.split_once(':') {
            Some((sources, methods)) => (sources, Some(methods)),
            None => (rest, None),
        };
        TrafficTarget {
            name: text.to_owned(),
            destination: name(destination),
            sources: sources.split(',').filter(|one| !one.is_empty()).map(name).collect(),
            ports,
            rules: methods
                .map(|methods| methods.split(',').filter(|m| !m.is_empty()).map(get).collect()),
            connections,
        }
    }

    fn get(method: &str) -> HttpMatch {
        HttpMatch { methods: [method.to_owned()].into(), ..HttpMatch::default() }
    }

    #[track_caller]
    fn check_at(port: &ServicePort, targets: &str, expect: Access) {
        let targets: Vec<_> = targets.split_whitespace().map(mk_target).collect();
        assert_eq!(access(Some(&name("a")), Some(port), &targets), expect);
        let turned: Vec<_> = targets.iter().rev().cloned().collect();
        let allowed = access(Some(&name("a")), Some(port), &turned) != Access::Nothing;
        assert_eq!(allowed, expect != Access::Nothing, "the order of targets must not matter");
    }

    #[track_caller]
    fn check(targets: &str, expect: Access) {
        check_at(&"80".into(), targets, expect);
    }

    #[track_caller]
    fn check_tcp(targets: &str, expect: Access) {
        let port = ServicePort { protocol: AppProtocol::Tcp, ..ServicePort::from("81") };
        check_at(&port, targets, expect);
    }

    /// proves: MSH-07
    #[test]
    fn targets_add_up_and_empty_means_nobody() {
        check("", Access::Everything);
        check("books<-", Access::Nothing);
        check("books<-b", Access::Nothing);
        check("books<-b books<-a", Access::Everything);
        check("books<-a:GET", Access::Only(vec![get("GET")]));
        check("books<-a:GET books<-a:PUT", Access::Only(vec![get("GET"), get("PUT")]));
        check("books<-a:GET books<-a", Access::Everything);
        check("books<-a:", Access::Nothing);
        check("books<-a@80", Access::Everything);
        check("books<-a@81", Access::Nothing);
        check("books<-a:GET@80,81 books<-a:PUT@81", Access::Only(vec![get("GET")]));
    }

    /// proves: MSH-07
    #[test]
    fn what_may_be_asked_for_opens_no_connection() {
        check_tcp("", Access::Everything);
        check_tcp("books<-a", Access::Nothing);
        check_tcp("books<-a:GET", Access::Nothing);
        check_tcp("books<-b!", Access::Nothing);
        check_tcp("books<-a!", Access::Everything);
        check_tcp("books<-a@80!", Access::Nothing);
        check_tcp("books<-a:GET@81!", Access::Everything);
        check_tcp("books<-a:GET books<-a@81!", Access::Everything);
    }
}

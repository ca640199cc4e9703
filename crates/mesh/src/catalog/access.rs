//! Who may call whom.
use crate::names::ServiceName;
use crate::topology::{HttpMatch, TrafficTarget};

/// What a source may ask of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Everything,
    /// Requests that match one of these; never empty.
    Only(Vec<HttpMatch>),
    Nothing,
}

/// Open where no target governs; closed to all but the named where one does. Targets add up.
pub fn access(
    source: &ServiceName,
    destination: &ServiceName,
    targets: &[TrafficTarget],
) -> Access {
    let mut governed = false;
    let mut only = Vec::new();
    for target in targets.iter().filter(|target| target.destination == *destination) {
        governed = true;
        if !target.sources.contains(source) {
            continue;
        }
        match &target.rules {
            None => return Access::Everything,
            Some(rules) => only.extend(rules.iter().cloned()),
        }
    }
    match (governed, only.is_empty()) {
        (false, _) => Access::Everything,
        (true, false) => Access::Only(only),
        (true, true) => Access::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    /// `books<-a,b` lets a and b do everything; `books<-a:GET` lets a only GET; `books<-` nobody.
    fn mk_target(text: &str) -> TrafficTarget {
        let (destination, rest) = text.split_once("<-").unwrap();
        let (sources, methods) = match rest.split_once(':') {
            Some((sources, methods)) => (sources, Some(methods)),
            None => (rest, None),
        };
        TrafficTarget {
            name: text.to_owned(),
            destination: name(destination),
            sources: sources.split(',').filter(|one| !one.is_empty()).map(name).collect(),
            rules: methods
                .map(|methods| methods.split(',').filter(|m| !m.is_empty()).map(get).collect()),
        }
    }

    fn get(method: &str) -> HttpMatch {
        HttpMatch { methods: [method.to_owned()].into(), ..HttpMatch::default() }
    }

    #[track_caller]
    fn check(targets: &str, expect: Access) {
        let targets: Vec<_> = targets.split_whitespace().map(mk_target).collect();
        assert_eq!(access(&name("a"), &name("books"), &targets), expect);
        let turned: Vec<_> = targets.iter().rev().cloned().collect();
        let allowed = access(&name("a"), &name("books"), &turned) != Access::Nothing;
        assert_eq!(allowed, expect != Access::Nothing, "the order of targets must not matter");
    }

    /// proves: MSH-07
    #[test]
    fn targets_add_up_and_empty_means_nobody() {
        check("", Access::Everything);
        check("other<-b", Access::Everything);
        check("books<-", Access::Nothing);
        check("books<-b", Access::Nothing);
        check("books<-b books<-a", Access::Everything);
        check("books<-a:GET", Access::Only(vec![get("GET")]));
        check("books<-a:GET books<-a:PUT", Access::Only(vec![get("GET"), get("PUT")]));
        check("books<-a:GET books<-a", Access::Everything);
        check("books<-a:", Access::Nothing);
    }
}

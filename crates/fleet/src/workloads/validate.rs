//! What the definition of a workload cannot say with options alone.
use orrery_api::{Object, Reason, Violation};
use orrery_proto::apps::v1::{Placement, Workload};

/// Refuses what could never run.
pub fn workload(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read as a workload has been refused by then, with its own words.
    let Ok(workload) = object.typed::<Workload>() else { return Vec::new() };
    let Some(spec) = &workload.spec else { return Vec::new() };
    let mut found = spec.placement.as_ref().map(placement).unwrap_or_default();
    for (number, needed) in spec.depends_on.iter().enumerate() {
        if needed.workload() == object.name() {
            let path = format!("spec.dependsOn[{number}].workload");
            let why = "must not be the workload itself, which would wait for ever";
            found.push(Violation::invalid(path, format_args!("{:?}", needed.workload()), why));
        }
    }
    found
}

fn placement(placement: &Placement) -> Vec<Violation> {
    let path = "spec.placement";
    let named = !placement.nodes.is_empty();
    match (&placement.selector, placement.replicas) {
        (None, _) if !named => {
            let hint = "name nodes here, or choose them by selector.matchLabels";
            vec![Violation::required(format!("{path}.nodes"), hint)]
        }
        (Some(_), _) if named => {
            let why = "must not be given together with selector: either names or labels";
            vec![Violation::new(format!("{path}.nodes"), Reason::Forbidden, why)]
        }
        (None, Some(_)) => {
            let why = "needs a selector: each node in nodes gets one copy";
            vec![Violation::new(format!("{path}.replicas"), Reason::Forbidden, why)]
        }
        (None, None) | (Some(_), _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::NodeSelector;

    #[track_caller]
    fn check(nodes: &[&str], selector: bool, replicas: Option<i32>, expect: &str) {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        let selector = selector.then(NodeSelector::default);
        let found = placement(&Placement { nodes, selector, replicas });
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths.join(" "), expect);
    }

    #[test]
    fn either_names_or_labels() {
        check(&["a"], false, None, "");
        check(&[], true, None, "");
        check(&[], true, Some(3), "");
        check(&[], false, None, "spec.placement.nodes");
        check(&["a"], true, None, "spec.placement.nodes");
        check(&["a"], false, Some(2), "spec.placement.replicas");
    }
}

//! Which nodes have copies that depend on which workloads.
use orrery_hub::ObjectName;
use orrery_proto::fleet::v1::Assignment;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counts, so that the last copy to go takes the node with it.
#[derive(Debug, Default)]
pub struct Dependents {
    nodes: HashMap<ObjectName, BTreeMap<String, usize>>,
}

impl Dependents {
    /// A copy was placed on a node.
    pub fn add(&mut self, node: &str, assignment: &Assignment) {
        for workload in needed(assignment) {
            *self.nodes.entry(workload).or_default().entry(node.to_owned()).or_default() += 1;
        }
    }

    /// A copy that was added is on that node no more.
    pub fn remove(&mut self, node: &str, assignment: &Assignment) {
        for workload in needed(assignment) {
            let Some(nodes) = self.nodes.get_mut(&workload) else { continue };
            if let Some(count) = nodes.get_mut(node) {
                *count -= 1;
                if *count == 0 {
                    nodes.remove(node);
                }
            }
            if nodes.is_empty() {
                self.nodes.remove(&workload);
            }
        }
    }

    /// The nodes that have to know how this workload is.
    pub fn nodes(&self, workload: &ObjectName) -> impl Iterator<Item = String> {
        self.nodes.get(workload).into_iter().flat_map(BTreeMap::keys).cloned()
    }
}

/// The workloads that a copy depends on.
pub fn needed(assignment: &Assignment) -> BTreeSet<ObjectName> {
    let dependencies = assignment.spec.iter().flat_map(|spec| &spec.depends_on);
    let name = |workload: &str| ObjectName::new(assignment.project.clone(), workload);
    dependencies.map(|dependency| name(dependency.workload())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{Dependency, WorkloadInstanceSpec};

    fn mk_assignment(needs: &[&str]) -> Assignment {
        let dependency =
            |name: &&str| Dependency { workload: Some((*name).into()), ..<_>::default() };
        let depends_on = needs.iter().map(dependency).collect();
        let spec = WorkloadInstanceSpec { depends_on, ..WorkloadInstanceSpec::default() };
        Assignment { project: "shop".into(), spec: Some(spec), ..Assignment::default() }
    }

    #[test]
    fn a_node_is_concerned_as_long_as_a_copy_on_it_is() {
        let mut dependents = Dependents::default();
        let db = ObjectName::new("shop", "db");
        let nodes = |dependents: &Dependents| dependents.nodes(&db).collect::<Vec<_>>().join(" ");
        dependents.add("a", &mk_assignment(&["db"]));
        dependents.add("a", &mk_assignment(&["db", "cache"]));
        dependents.add("b", &mk_assignment(&["cache"]));
        assert_eq!(nodes(&dependents), "a");
        dependents.remove("a", &mk_assignment(&["db"]));
        assert_eq!(nodes(&dependents), "a");
        dependents.remove("a", &mk_assignment(&["db", "cache"]));
        assert_eq!(nodes(&dependents), "");
        dependents.remove("b", &mk_assignment(&["cache"]));
        assert!(dependents.nodes.is_empty(), "nothing is left behind");
    }
}

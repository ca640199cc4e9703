//! Which workload waits for which.
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::Workload;
use orrery_runtime::Change;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The dependencies between all workloads, fed by the watch over them.
#[derive(Debug, Default)]
pub struct Graph {
    edges: RwLock<Edges>,
}

#[derive(Debug, Default)]
struct Edges {
    needs: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    needed_by: HashMap<ObjectName, BTreeSet<ObjectName>>,
}

impl Graph {
    /// Takes in what became of a workload, and says which others have to be planned again.
    pub fn take(&self, change: &Change<Workload>) -> BTreeSet<ObjectName> {
        let needs = |workload: Option<&Workload>| {
            workload.map(|workload| needs(&change.name, workload)).unwrap_or_default()
        };
        let (old, new) = (needs(change.old.as_deref()), needs(change.new.as_deref()));
        let mut again = BTreeSet::new();
        if going(change.old.as_deref()) != going(change.new.as_deref()) {
            // What they wait for before they stop.
            again.extend(old.iter().chain(&new).cloned());
        }
        if old != new {
            let mut edges = self.edges.write();
            edges.replace(&change.name, &old, new);
            // A circle may have closed or opened anywhere along the way.
            again.extend(edges.of_project(&change.name.project).cloned());
        }
        again
    }

    /// The workloads that depend on this one.
    pub fn dependents(&self, name: &ObjectName) -> BTreeSet<ObjectName> {
        self.edges.read().needed_by.get(name).cloned().unwrap_or_default()
    }

    /// The shortest way from a workload back to itself, if there is one: its name, what it needs,
    /// what that needs, and so on, to its name again.
    pub fn cycle(&self, name: &ObjectName) -> Option<Vec<String>> {
        let edges = self.edges.read();
        let mut came_from: BTreeMap<&ObjectName, &ObjectName> = BTreeMap::new();
        let mut next = VecDeque::from([name]);
        while let Some(at) = next.pop_front() {
            for to in edges.needs.get(at).into_iter().flatten() {
                if to == name {
                    return Some(path(name, at, &came_from));
                }
                if !came_from.contains_key(to) {
                    came_from.insert(to, at);
                    next.push_back(to);
                }
            }
        }
        None
    }
}

/// Walks back from the last step before the circle closes.
fn path(
    start: &ObjectName,
    last: &ObjectName,
    came_from: &BTreeMap<&ObjectName, &ObjectName>,
) -> Vec<String> {
    let mut names = vec![start.name.clone()];
    let mut at = last;
    while at != start {
        names.push(at.name.clone());
        match came_from.get(at) {
            Some(before) => at = before,
            None => break,
        }
    }
    names.push(start.name.clone());
    names.reverse();
    names
}

impl Edges {
    fn replace(
        &mut self,
        name: &ObjectName,
        old: &BTreeSet<ObjectName>,
        new: BTreeSet<ObjectName>,
    ) {
        for gone in old.difference(&new) {
            if let Some(dependents) = self.needed_by.get_mut(gone) {
                dependents.remove(name);
                if dependents.is_empty() {
                    self.needed_by.remove(gone);
                }
            }
        }
        for needed in &new {
            self.needed_by.entry(needed.clone()).or_default().insert(name.clone());
        }
        if new.is_empty() {
            self.needs.remove(name);
        } else {
            self.needs.insert(name.clone(), new);
        }
    }

    fn of_project<'a>(&'a self, project: &'a str) -> impl Iterator<Item = &'a ObjectName> {
        let from = ObjectName::new(project, "");
        let all = self.needs.range(from..).map(|(name, _)| name);
        all.take_while(move |name| name.project == project)
    }
}

fn needs(name: &ObjectName, workload: &Workload) -> BTreeSet<ObjectName> {
    let dependencies = workload.spec.iter().flat_map(|spec| &spec.depends_on);
    dependencies.map(|needed| ObjectName::new(name.project.clone(), needed.workload())).collect()
}

/// Gone, or on its way.
fn going(workload: Option<&Workload>) -> (bool, bool) {
    let deleted = |workload: &Workload| {
        workload.metadata.as_ref().is_some_and(|meta| meta.deletion_timestamp.is_some())
    };
    (workload.is_none(), workload.is_some_and(deleted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{Dependency, WorkloadSpec};
    use std::sync::Arc;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    fn mk_workload(needs: &str) -> Arc<Workload> {
        let needed = |word: &str| Dependency { workload: Some(word.into()), condition: None };
        let depends_on = needs.split_whitespace().map(needed).collect();
        let spec = WorkloadSpec { depends_on, ..WorkloadSpec::default() };
        Arc::new(Workload { spec: Some(spec), ..Workload::default() })
    }

    /// Says that a workload needs others, given what it needed before.
    fn tell(graph: &Graph, who: &str, old: Option<&str>, new: Option<&str>) -> String {
        let change =
            Change { name: name(who), old: old.map(mk_workload), new: new.map(mk_workload) };
        let again: Vec<String> = graph.take(&change).into_iter().map(|name| name.name).collect();
        again.join(" ")
    }

    #[track_caller]
    fn check_cycle(edges: &[(&str, &str)], from: &str, expect: Option<&str>) {
        let graph = Graph::default();
        for (who, needs) in edges {
            tell(&graph, who, None, Some(needs));
        }
        assert_eq!(graph.cycle(&name(from)).map(|way| way.join(" -> ")).as_deref(), expect);
    }

    #[test]
    fn circles_are_found_and_named() {
        check_cycle(&[("a", "b")], "a", None);
        check_cycle(&[("a", "a")], "a", Some("a -> a"));
        check_cycle(&[("a", "b"), ("b", "a")], "b", Some("b -> a -> b"));
        check_cycle(&[("a", "b c"), ("b", "c"), ("c", "a")], "a", Some("a -> c -> a"));
        check_cycle(&[("a", "b"), ("b", "c"), ("c", "a")], "b", Some("b -> c -> a -> b"));
        // Who only waits for a circle is not part of it.
        check_cycle(&[("a", "b"), ("b", "c"), ("c", "b")], "a", None);
    }

    #[test]
    fn a_change_says_who_has_to_look_again() {
        let graph = Graph::default();
        assert_eq!(tell(&graph, "web", None, Some("db")), "db web");
        assert_eq!(tell(&graph, "job", None, Some("db")), "db job web");
        assert_eq!(graph.dependents(&name("db")), [name("job"), name("web")].into());
        assert_eq!(tell(&graph, "web", Some("db"), Some("db")), "", "a state concerns nobody");
        assert_eq!(tell(&graph, "web", Some("db"), None), "db job");
        assert_eq!(graph.dependents(&name("db")), [name("job")].into());
        tell(&graph, "job", Some("db"), Some(""));
        assert!(graph.dependents(&name("db")).is_empty());
    }
}

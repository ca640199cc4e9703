//! How far the workloads have come that instances wait for, as the server last said.
use crate::desired::DependencyCondition;
use crate::disk::{self, Survive};
use orrery_proto::fleet::v1::{Assignment, DependencyState, DependencyStates};
use prost::Message;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By project and name of the workload. Each connection begins with nothing and is told what the
/// instances of this agent need; what was said last is kept on disk, for an agent that starts while
/// its server is away.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    states: BTreeMap<(String, String), String>,
    file: Option<PathBuf>,
}

impl Dependencies {
    /// With what was last said to an agent of this folder. A file that cannot be read is as none: the
    /// server says everything again.
    pub(crate) fn open(data_dir: &Path) -> Self {
        let file = data_dir.join("dependencies");
        let mut known = Self { states: BTreeMap::new(), file: Some(file.clone()) };
        match disk::read(&file).map(|bytes| bytes.map(|b| DependencyStates::decode(b.as_slice()))) {
            Ok(Some(Ok(said))) => known.take(said),
            Ok(None) => {}
            Ok(Some(Err(_))) | Err(_) => {
                tracing::warn!(file = %file.display(), "cannot read what was last said; ignored");
            }
        }
        known
    }

    /// Writes down what is known. It is small, and changes when a workload that others wait for does.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        let states = self.states.iter().map(|((project, workload), state)| DependencyState {
            project: project.clone(),
            workload: workload.clone(),
            state: state.clone(),
        });
        let bytes = DependencyStates { states: states.collect() }.encode_to_vec();
        if let Err(error) = disk::write(file, &bytes, Survive::Process) {
            tracing::warn!(file = %file.display(), %error, "cannot write down what others are");
        }
    }

    pub(crate) fn forget(&mut self) {
        self.states.clear();
    }

    pub(crate) fn take(&mut self, said: DependencyStates) {
        let keyed = said.states.into_iter().map(|s| ((s.project, s.workload), s.state));
        self.states.extend(keyed);
    }

    /// What an instance has to wait for before it may start, in words.
    pub(crate) fn unmet(&self, assignment: &Assignment) -> Option<String> {
        let dependencies = assignment.spec.iter().flat_map(|spec| &spec.depends_on);
        let unmet = dependencies.filter_map(|dependency| {
            let workload = dependency.workload();
            let wanted = DependencyCondition::of(dependency).ok()?;
            let key = (assignment.project.clone(), workload.to_owned());
            let now = match self.states.get(&key).map(String::as_str) {
                Some(state) if state == wanted.state() => return None,
                Some("") => "there is no workload of that name".to_owned(),
                Some(state) => format!("it is {state}"),
                None => "the server has not said how it is".to_owned(),
            };
            Some(format!("workload {workload:?} is {}; {now}", wanted.state()))
        });
        let unmet: Vec<String> = unmet.collect();
        (!unmet.is_empty()).then(|| format!("waiting until {}", unmet.join(", and until ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{Dependency, WorkloadInstanceSpec};
    use orrery_proto::fleet::v1::DependencyState;

    /// Dependencies as "db:running job", what the server said as "db:Pending job:".
    #[track_caller]
    fn check(needs: &str, said: &str, expect: Option<&str>) {
        let split = |word: &str| {
            let (name, rest) = word.split_once(':').unwrap_or((word, ""));
            (name.to_owned(), rest.to_owned())
        };
        let dependency = |word: &str| {
            let (workload, condition) = split(word);
            let condition = Some(condition).filter(|condition| !condition.is_empty());
            Dependency { workload: Some(workload), condition }
        };
        let depends_on = needs.split_whitespace().map(dependency).collect();
        let spec = WorkloadInstanceSpec { depends_on, ..WorkloadInstanceSpec::default() };
        let assignment =
            Assignment { project: "p".into(), spec: Some(spec), ..Assignment::default() };
        let state = |word: &str| {
            let (workload, state) = split(word);
            DependencyState { project: "p".into(), workload, state }
        };
        let mut dependencies = Dependencies::default();
        let states = said.split_whitespace().map(state).collect();
        dependencies.take(DependencyStates { states });
        assert_eq!(dependencies.unmet(&assignment).as_deref(), expect);
    }

    #[test]
    fn what_was_said_is_known_to_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let state = |workload: &str| DependencyState {
            project: "p".into(),
            workload: workload.into(),
            state: "Running".into(),
        };
        let mut known = Dependencies::open(dir.path());
        known.take(DependencyStates { states: vec![state("db"), state("x")] });
        known.save();
        assert_eq!(Dependencies::open(dir.path()).states, known.states);
        std::fs::write(dir.path().join("dependencies"), "broken").unwrap();
        assert!(Dependencies::open(dir.path()).states.is_empty());
    }

    #[test]
    fn what_is_waited_for_is_named() {
        check("", "", None);
        check("db", "db:Running", None);
        check("db:running", "db:Running", None);
        check("job:succeeded trap:failed", "job:Succeeded trap:Failed", None);
        let text = "waiting until workload \"db\" is Running; it is Pending";
        check("db", "db:Pending", Some(text));
        let text = "waiting until workload \"db\" is Succeeded; it is Running";
        check("db:succeeded", "db:Running", Some(text));
        let text = "waiting until workload \"db\" is Running; there is no workload of that name";
        check("db", "db:", Some(text));
        let text = "waiting until workload \"db\" is Running; the server has not said how it is";
        check("db", "other:Running", Some(text));
        let text = "waiting until workload \"a\" is Running; it is Failed, \
                    and until workload \"c\" is Failed; it is Unknown";
        check("a b c:failed", "a:Failed b:Running c:Unknown", Some(text));
    }
}

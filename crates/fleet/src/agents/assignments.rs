//! Which copies each agent should run, and telling it; and how far the workloads have come that its
//! copies wait for.
use super::calm::Calm;
use super::dependents::{Dependents, needed};
use super::files::Due;
use super::volumes;
use crate::middleware::distribute::Addressed;
use crate::middleware::{Outbox, Senders};
use crate::workloads::files::{is_or_was_shared, secrets};
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{Workload, WorkloadInstance, WorkloadInstanceSpec};
use orrery_proto::core::v1::Secret;
use orrery_proto::fleet::v1::{
    Assignment, AssignmentSet, DependencyState, DependencyStates, ServerMessage, Unassign,
    server_message::Message,
};
use orrery_proto::storage::v1::VolumeAttachment;
use orrery_runtime::{Change, View};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The copies by node. Messages leave under its lock, so an agent hears of changes in their order
/// and its first set is never older than a change it was already told.
pub struct Assignments {
    senders: Arc<Senders>,
    workloads: Arc<View<Workload>>,
    /// Copies whose files have to be handed out.
    due: Arc<Due>,
    attachments: Arc<View<VolumeAttachment>>,
    calm: Arc<Calm>,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Index {
    by_node: HashMap<String, BTreeMap<String, Assignment>>,
    /// By id: where the copy runs, and what it is called.
    by_id: HashMap<String, Placed>,
    dependents: Dependents,
    /// Ids of the copies with files from each secret.
    by_secret: HashMap<ObjectName, BTreeSet<String>>,
}

/// Where a copy runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub node: String,
    pub name: ObjectName,
    pub removing: bool,
}

impl Assignments {
    pub fn new(
        senders: Arc<Senders>,
        workloads: Arc<View<Workload>>,
        attachments: Arc<View<VolumeAttachment>>,
    ) -> Self {
        let (due, calm, index) = (Arc::default(), Arc::default(), Mutex::default());
        Self { senders, workloads, due, attachments, calm, index }
    }

    /// The copies whose files have to be handed out.
    pub fn due(&self) -> &Arc<Due> {
        &self.due
    }

    /// Whether copies are handed out by the dozen just now.
    pub fn calm(&self) -> &Arc<Calm> {
        &self.calm
    }

    /// A secret changed: the files of those who name it may have, in every project where it is or was shared.
    pub fn secret_changed(&self, change: &Change<Secret>) {
        let index = self.index.lock();
        if !is_or_was_shared(change) {
            let concerned = index.by_secret.get(&change.name).into_iter().flatten();
            return concerned.for_each(|id| self.due.add(id));
        }
        let named = index.by_secret.iter().filter(|(it, _)| it.name == change.name.name);
        named.flat_map(|(_, ids)| ids).for_each(|id| self.due.add(id));
    }

    /// The copy with this id, and the node that runs it.
    pub fn assignment(&self, id: &str) -> Option<(String, Assignment)> {
        let index = self.index.lock();
        let node = index.by_id.get(id)?.node.clone();
        let assignment = index.by_node.get(&node)?.get(id)?.clone();
        Some((node, assignment))
    }

    /// Takes in what became of a copy, and tells its agent.
    pub fn take(&self, change: &Change<WorkloadInstance>) {
        let old = change.old.as_deref().and_then(|i| assignment(&change.name, i));
        let mut new = change.new.as_deref().and_then(|i| assignment(&change.name, i));
        let mut index = self.index.lock();
        // Under the lock: an attachment that changes now finds the copy here, or is seen here.
        if let Some((node, new)) = &mut new {
            new.volumes = volumes::attached(&self.attachments, node, new);
        }
        let mut messages = index.replace(&change.name, old, new);
        let needed = messages.iter().filter_map(|addressed| match &addressed.message.message {
            Some(Message::Assign(assignment)) => Some((&addressed.agent, needed(assignment))),
            Some(_) | None => None,
        });
        let needed = needed.filter(|(_, needed)| !needed.is_empty());
        let states: Vec<Addressed> = needed
            .map(|(agent, needed)| Addressed { agent: agent.clone(), message: self.tell(needed) })
            .collect();
        let with_files = messages.iter().filter_map(|addressed| match &addressed.message.message {
            Some(Message::Assign(assignment)) if has_files(assignment) => Some(&assignment.id),
            Some(_) | None => None,
        });
        with_files.for_each(|id| self.due.add(id));
        let copies = messages
            .iter()
            .filter(|addressed| matches!(addressed.message.message, Some(Message::Assign(_))));
        self.calm.handed_out(copies.count());
        messages.extend(states);
        self.senders.send(messages);
    }

    /// Tells the agent of a node what became of a volume that its copies mount.
    pub fn take_attachment(&self, change: &Change<VolumeAttachment>) {
        let both = change.old.as_deref().or(change.new.as_deref());
        let Some(spec) = both.and_then(|attachment| attachment.spec.as_ref()) else { return };
        let mut index = self.index.lock();
        let there = index.by_node.get_mut(spec.node()).into_iter().flat_map(BTreeMap::values_mut);
        let mut messages = Vec::new();
        for copy in there.filter(|copy| volumes::mounts(copy, &change.name.project, spec.volume()))
        {
            let known = volumes::attached(&self.attachments, spec.node(), copy);
            if known != copy.volumes {
                copy.volumes = known;
                let message = Some(Message::Assign(copy.clone()));
                let (agent, message) = (spec.node().to_owned(), ServerMessage { message });
                messages.push(Addressed { agent, message });
            }
        }
        self.senders.send(messages);
    }

    /// Tells the agents with copies that depend on a workload how far it has come.
    pub fn tell_dependents(&self, change: &Change<Workload>) {
        let state = |workload: &Option<Arc<Workload>>| {
            workload.as_ref().map(|workload| state(workload).to_owned())
        };
        if state(&change.old) == state(&change.new) {
            return;
        }
        let index = self.index.lock();
        let concerned = index.dependents.nodes(&change.name);
        let message = self.tell([change.name.clone()].into());
        let addressed = |agent: String| Addressed { agent, message: message.clone() };
        self.senders.send(concerned.map(addressed).collect());
    }

    fn tell(&self, workloads: BTreeSet<ObjectName>) -> ServerMessage {
        let states = workloads.into_iter().map(|name| DependencyState {
            state: self
                .workloads
                .get(&name)
                .map(|found| state(&found).to_owned())
                .unwrap_or_default(),
            project: name.project,
            workload: name.name,
        });
        let states = DependencyStates { states: states.collect() };
        ServerMessage { message: Some(Message::Dependencies(states)) }
    }

    /// Leaves the full set of an agent in the outbox of its new session.
    pub fn open(&self, agent: &str, outbox: &Outbox) {
        let index = self.index.lock();
        let assignments = index.by_node.get(agent).map(|all| all.values().cloned().collect());
        let set = AssignmentSet { assignments: assignments.unwrap_or_default() };
        set.assignments
            .iter()
            .filter(|copy| has_files(copy))
            .for_each(|copy| self.due.add(&copy.id));
        let needed = self.tell(set.assignments.iter().flat_map(needed).collect());
        outbox.push([needed, ServerMessage { message: Some(Message::Set(set)) }]);
    }

    /// Where the copy with this id runs.
    pub fn placed(&self, id: &str) -> Option<Placed> {
        self.index.lock().by_id.get(id).cloned()
    }

    /// The copies on a node.
    pub fn on_node(&self, node: &str) -> Vec<ObjectName> {
        let index = self.index.lock();
        let assignments = index.by_node.get(node).into_iter().flat_map(BTreeMap::values);
        assignments.map(|a| ObjectName::new(a.project.clone(), a.name.clone())).collect()
    }
}

impl Index {
    fn replace(
        &mut self,
        name: &ObjectName,
        old: Option<(String, Assignment)>,
        new: Option<(String, Assignment)>,
    ) -> Vec<Addressed> {
        let mut messages = Vec::new();
        if let Some((node, old)) = old {
            let moved = new.as_ref().is_none_or(|(to, new)| *to != node || new.id != old.id);
            if moved {
                self.by_id.remove(&old.id);
                if let Some(all) = self.by_node.get_mut(&node)
                    && let Some(was) = all.remove(&old.id)
                {
                    self.dependents.remove(&node, &was);
                    self.forget_secrets(&was);
                }
                let message = Some(Message::Unassign(Unassign { id: old.id }));
                messages.push(Addressed { agent: node, message: ServerMessage { message } });
            }
        }
        if let Some((node, new)) = new {
            let placed = Placed { node: node.clone(), name: name.clone(), removing: new.removing };
            self.by_id.insert(new.id.clone(), placed);
            let all = self.by_node.entry(node.clone()).or_default();
            // A status that came back changes nothing for the agent.
            if all.get(&new.id) != Some(&new) {
                self.dependents.add(&node, &new);
                if let Some(was) = all.insert(new.id.clone(), new.clone()) {
                    self.dependents.remove(&node, &was);
                    self.forget_secrets(&was);
                }
                for secret in named_secrets(&new) {
                    self.by_secret.entry(secret).or_default().insert(new.id.clone());
                }
                let message = ServerMessage { message: Some(Message::Assign(new)) };
                messages.push(Addressed { agent: node, message });
            }
        }
        messages
    }
}

impl Index {
    fn forget_secrets(&mut self, was: &Assignment) {
        for secret in named_secrets(was) {
            if let Some(ids) = self.by_secret.get_mut(&secret) {
                ids.remove(&was.id);
                if ids.is_empty() {
                    self.by_secret.remove(&secret);
                }
            }
        }
    }
}

fn named_secrets(assignment: &Assignment) -> BTreeSet<ObjectName> {
    let files = assignment.spec.as_ref().map(|spec| spec.files.as_slice()).unwrap_or_default();
    secrets(&assignment.project, files)
}

fn has_files(assignment: &Assignment) -> bool {
    assignment.spec.as_ref().is_some_and(|spec| !spec.files.is_empty())
}

/// How far a workload has come; one that nobody has looked at yet is pending.
fn state(workload: &Workload) -> &str {
    let state = workload.status.as_ref().map(|status| status.state.as_str());
    state.filter(|state| !state.is_empty()).unwrap_or("Pending")
}

/// The node of a copy, and what that node's agent should know of it.
fn assignment(name: &ObjectName, instance: &WorkloadInstance) -> Option<(String, Assignment)> {
    let metadata = instance.metadata.as_ref()?;
    let spec = instance.spec.clone()?;
    let node = WorkloadInstanceSpec::node(&spec).to_owned();
    let assignment = Assignment {
        id: metadata.uid.clone(),
        project: name.project.clone(),
        name: name.name.clone(),
        generation: metadata.generation,
        spec: Some(spec),
        removing: metadata.deletion_timestamp.is_some(),
        volumes: Vec::new(),
    };
    Some((node, assignment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::senders::Session;
    use orrery_proto::meta::v1::ObjectMeta;

    fn mk_instance(generation: i64) -> Arc<WorkloadInstance> {
        let metadata = ObjectMeta { uid: "i-1".into(), generation, ..ObjectMeta::default() };
        let spec = WorkloadInstanceSpec { node: Some("edge".into()), ..<_>::default() };
        Arc::new(WorkloadInstance {
            metadata: Some(metadata),
            spec: Some(spec),
            ..WorkloadInstance::default()
        })
    }

    fn change(old: Option<i64>, new: Option<i64>) -> Change<WorkloadInstance> {
        Change {
            name: ObjectName::new("p", "web-edge"),
            old: old.map(mk_instance),
            new: new.map(mk_instance),
        }
    }

    /// proves: AGT-08
    #[tokio::test]
    async fn an_agent_gets_its_set_first_and_then_what_changes() {
        let senders = Arc::new(Senders::default());
        let (workloads, attachments) = (Arc::new(View::new(None)), Arc::new(View::new(None)));
        let assignments = Assignments::new(senders.clone(), workloads, attachments);
        assignments.take(&change(None, Some(1)));
        let outbox = Arc::new(Outbox::default());
        let session = Session { epoch: 1, outbox: outbox.clone(), ..Session::default() };
        senders.insert("edge", session);
        assignments.open("edge", &outbox);
        let first = outbox.next().await.expect("open");
        let Some(Message::Set(set)) = &first[0].message else { panic!("no set: {first:?}") };
        assert_eq!(first.len(), 1, "nothing depends on anything");
        assert_eq!((set.assignments.len(), set.assignments[0].generation), (1, 1));

        assignments.take(&change(Some(1), Some(1)));
        assignments.take(&change(Some(1), Some(2)));
        let next = outbox.next().await.expect("open");
        assert!(matches!(&next[0].message, Some(Message::Assign(a)) if a.generation == 2));
        assert_eq!(next.len(), 1, "an unchanged assignment is not sent");

        assignments.take(&change(Some(2), None));
        let last = outbox.next().await.expect("open");
        assert!(matches!(&last[0].message, Some(Message::Unassign(u)) if u.id == "i-1"));
        assert!(assignments.placed("i-1").is_none() && assignments.on_node("edge").is_empty());
    }
}

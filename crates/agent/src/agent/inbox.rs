//! What the server says.
use super::{Agent, Instance};
use crate::model::InstanceId;
use orrery_proto::fleet::v1::{
    Assignment, AssignmentSet, DependencyStates, FromServer, InstanceFiles, LoadRequest,
    ServerHello, Unassign, server_message::Message,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

impl Agent {
    pub(super) fn receive(&mut self, message: FromServer) {
        for message in message.messages {
            match message.message {
                Some(Message::Hello(hello)) => self.greeted(&hello),
                Some(Message::Set(set)) => self.assign_all(set),
                Some(Message::Assign(assignment)) => self.assign(assignment),
                Some(Message::Unassign(Unassign { id })) => self.unassign(&id),
                Some(Message::Dependencies(states)) => self.depend(states),
                Some(Message::Log(request)) => self.talk.logs.begin(request),
                Some(Message::LogCredit(paid)) => self.talk.logs.pay(&paid.stream, paid.chunks),
                Some(Message::LogCancel(cancel)) => self.talk.logs.cancel(&cancel.stream),
                Some(Message::Exec(order)) => self.talk.execs.take(order),
                Some(Message::Load(request)) => self.measure(request),
                Some(Message::Files(files)) => self.take_files(files),
                None => self.unknown(),
            }
        }
    }

    /// What waits for other workloads may be able to start now.
    fn depend(&mut self, states: DependencyStates) {
        self.dependencies.take(states);
        self.dependencies.save();
        let waiting = self.instances.iter().filter(|(_, instance)| instance.has_dependencies());
        let waiting: Vec<InstanceId> = waiting.map(|(id, _)| id.clone()).collect();
        waiting.iter().for_each(|id| self.drive(id));
    }

    fn greeted(&mut self, hello: &ServerHello) {
        let (version, epoch) = (&hello.version, hello.session_epoch);
        tracing::info!(%version, epoch, instances = self.instances.len(), "connected");
        self.dependencies.forget();
        self.talk.logs.forget();
        self.talk.execs.forget();
        self.reporter.greeted();
    }

    /// The whole truth: what is not in it must not run.
    fn assign_all(&mut self, set: AssignmentSet) {
        let named: BTreeSet<&str> =
            set.assignments.iter().map(|assignment| assignment.id.as_str()).collect();
        let others = self.instances.keys().filter(|id| !named.contains(id.as_str()));
        let others: Vec<InstanceId> = others.cloned().collect();
        others.iter().for_each(|id| self.remove(id));
        set.assignments.into_iter().for_each(|assignment| self.assign(assignment));
    }

    fn assign(&mut self, assignment: Assignment) {
        let Some(id) = InstanceId::new(&assignment.id) else {
            tracing::error!(id = %assignment.id, "refused: not usable as the name of a folder");
            return;
        };
        match self.instances.get_mut(&id) {
            Some(instance) => instance.assign(&id, assignment),
            // Removed long ago, and the server has not heard of it.
            None if assignment.removing => self.reporter.removed(&id, assignment.generation),
            None => {
                let instance = Instance::assigned(&id, assignment, Instant::now());
                self.instances.insert(id.clone(), instance);
            }
        }
        self.drive(&id);
    }

    fn unassign(&mut self, id: &str) {
        match InstanceId::new(id) {
            Some(id) if self.instances.contains_key(&id) => self.remove(&id),
            Some(id) => self.reporter.removed(&id, 0),
            None => tracing::error!(%id, "refused: not usable as the name of a folder"),
        }
    }

    fn remove(&mut self, id: &InstanceId) {
        if let Some(instance) = self.instances.get_mut(id) {
            instance.unassign(id);
            self.drive(id);
        }
    }

    /// The content of an instance's files; it may come before the instance itself.
    fn take_files(&mut self, files: InstanceFiles) {
        let Some(id) = InstanceId::new(&files.id) else {
            tracing::error!(id = %files.id, "refused: not usable as the name of a folder");
            return;
        };
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.files = Some(Arc::new(files));
            self.drive(&id);
        }
    }

    fn measure(&mut self, request: LoadRequest) {
        let live = self.instances.iter().filter_map(|(id, instance)| Some((id, instance.pid()?)));
        let roots = live.filter_map(|(id, pid)| Some((id.clone(), self.tools.root(id, pid)?)));
        self.talk.loads.answer(request.stream, roots.collect());
    }

    fn unknown(&mut self) {
        if !self.warned_of_unknown {
            self.warned_of_unknown = true;
            tracing::warn!("ignored a message that this agent does not know: the server is newer");
        }
    }
}

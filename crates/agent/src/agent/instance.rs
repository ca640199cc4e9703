//! What the loop keeps about one instance.
use super::health::Health;
use super::status;
use super::work::{Done, Event, Order};
use crate::dependencies::Dependencies;
use crate::desired::{desired, unassigned};
use crate::files::Files;
use crate::model::{InstanceId, Run, RunState};
use crate::plan::{Action, Desired, Goal, Observed, Phase, StopProgress, Trouble, Words};
use crate::runtime::StopRequest;
use crate::volumes;
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{Assignment, InstanceFiles};
use std::sync::Arc;
use tokio::time::Instant;

pub(super) struct Instance {
    /// Nothing when it cannot be read and the server has not spoken yet.
    assignment: Option<Assignment>,
    desired: Desired,
    /// Counts the changes of the assignment, so that a save of an older one is not mistaken for a
    /// save of this one.
    revision: u64,
    pub observed: Observed,
    /// A task acts on it.
    pub busy: bool,
    /// A task waits for the end of its run.
    pub watched: bool,
    pub wake: Option<Instant>,
    /// What its probes say of its live run.
    pub health: Health,
    /// The content of its files, as the server last said.
    pub files: Option<Arc<InstanceFiles>>,
    /// What keeps it from starting as far as its files are concerned.
    files_missing: Option<String>,
    /// What was last logged.
    phase: Option<Phase>,
}

impl Instance {
    /// One that was on disk when the agent started.
    pub(super) fn found(id: &InstanceId, assignment: Option<Assignment>, now: Instant) -> Self {
        let desired = assignment.as_ref().map(|assignment| desired(id, assignment));
        Self {
            assignment,
            desired: desired.unwrap_or_else(|| unassigned(id)),
            revision: 0,
            observed: observed(false, true, now),
            busy: false,
            watched: false,
            wake: None,
            health: Health::default(),
            files: None,
            files_missing: None,
            phase: None,
        }
    }

    /// One that the server has just assigned; there is no folder of that name yet.
    pub(super) fn assigned(id: &InstanceId, assignment: Assignment, now: Instant) -> Self {
        let found = Self::found(id, Some(assignment), now);
        Self { observed: observed(true, false, now), ..found }
    }

    /// Takes over what the server says, which always is the last word.
    pub(super) fn assign(&mut self, id: &InstanceId, assignment: Assignment) {
        if self.assignment.as_ref() != Some(&assignment) {
            self.desired = desired(id, &assignment);
            self.assignment = Some(assignment);
            self.revision += 1;
            self.observed.saved = false;
            self.health.redefine(self.assignment.as_ref(), Instant::now());
        }
    }

    /// Sees whether its files are there: handed out by this server, or written for an earlier run.
    pub(super) fn note_files(&mut self, id: &InstanceId, files: &Files) {
        let spec = self.assignment.as_ref().and_then(|known| known.spec.as_ref());
        let spec = spec.filter(|spec| !spec.files.is_empty());
        // What runs has its files; looking at the disk is for what is about to start.
        let Some(spec) = spec.filter(|_| !self.is_live()) else {
            self.files_missing = None;
            return;
        };
        let revision = spec.files_revision();
        let handed = self.files.as_ref().filter(|handed| handed.revision == revision);
        self.files_missing = match handed {
            Some(handed) if handed.problem.is_empty() => None,
            Some(handed) => Some(handed.problem.clone()),
            None if files.has(id, revision) => None,
            None => Some("waiting for the server to hand out its files".to_owned()),
        };
    }

    /// Notes that it should go.
    pub(super) fn unassign(&mut self, id: &InstanceId) {
        let known = self.assignment.clone();
        let known = known
            .unwrap_or_else(|| Assignment { id: id.as_str().to_owned(), ..Assignment::default() });
        self.assign(id, Assignment { removing: true, ..known });
    }

    /// Whether it may have to wait for other workloads.
    pub(super) fn has_dependencies(&self) -> bool {
        let spec = self.assignment.as_ref().and_then(|assignment| assignment.spec.as_ref());
        spec.is_some_and(|spec| !spec.depends_on.is_empty())
    }

    pub(super) fn desired(&self, halting: bool, dependencies: &Dependencies) -> Desired {
        let goal = match self.desired.goal {
            Goal::Run | Goal::Hold | Goal::Rest if halting => Goal::Halt,
            goal @ (Goal::Run | Goal::Hold | Goal::Halt | Goal::Rest | Goal::Remove) => goal,
        };
        let waiting = self.assignment.as_ref().and_then(|known| dependencies.unmet(known));
        let waiting = waiting.or_else(|| self.files_missing.clone());
        let waiting = waiting.or_else(|| self.assignment.as_ref().and_then(volumes::waiting));
        let (unhealthy, unready) = (self.health.unhealthy(), self.health.unready());
        let StopRequest { signal, grace } = self.stop();
        let base = self.desired.clone();
        Desired { goal, waiting, unhealthy, unready, stop_signal: signal, grace, ..base }
    }

    /// How it is stopped: as its definition says, or, without one, as was said when it was started.
    fn stop(&self) -> StopRequest {
        let defined = self.assignment.as_ref().is_some_and(|known| known.spec.is_some());
        let run = self.observed.run.as_ref().filter(|_| !defined);
        let desired = StopRequest { signal: self.desired.stop_signal, grace: self.desired.grace };
        run.and_then(|run| run.stop).unwrap_or(desired)
    }

    /// The process of its live run.
    pub(super) fn pid(&self) -> Option<i32> {
        match self.observed.run.as_ref()?.state {
            RunState::Running { pid, .. } => Some(pid),
            RunState::StartFailed { .. }
            | RunState::Ended { .. }
            | RunState::Lost { .. }
            | RunState::Unknown { .. } => None,
        }
    }

    pub(super) fn generation(&self) -> i64 {
        self.assignment.as_ref().map(|assignment| assignment.generation).unwrap_or_default()
    }

    pub(super) fn is_live(&self) -> bool {
        self.observed.run.as_ref().is_some_and(Run::is_live)
    }

    /// Nothing runs, and nothing is under way that could change that.
    pub(super) fn is_settled(&self) -> bool {
        self.observed.known && !self.is_live() && !self.busy
    }

    /// Logs each change of the phase once.
    pub(super) fn log(&mut self, id: &InstanceId, words: &Words) {
        if self.phase.replace(words.phase) != Some(words.phase) {
            let (state, reason) = words.phase.names();
            let name = self.assignment.as_ref().map(|known| known.name.as_str());
            let name = name.unwrap_or_default();
            tracing::info!(%id, name, state, reason, cause = words.message, "instance");
        }
    }

    pub(super) fn status(&self, words: &Words) -> WorkloadInstanceStatus {
        let status = status::status(words, self.observed.run.as_ref(), self.generation());
        WorkloadInstanceStatus { ready: self.health.ready(), ..status }
    }

    pub(super) fn order(&self, id: &InstanceId, action: Action, desired: Desired) -> Order {
        let assignment = self.assignment.clone().unwrap_or_default();
        let files = self.files.clone();
        Order { id: id.clone(), action, assignment, desired, revision: self.revision, files }
    }

    /// Takes in what a task has to say; true means that it is to be forgotten.
    pub(super) fn happened(&mut self, id: &InstanceId, event: Event, now: Instant) -> bool {
        match event {
            Event::Done { action, outcome: Ok(done) } => {
                self.busy = false;
                self.observed.trouble = None;
                return self.did(action, done, now);
            }
            Event::Done { action, outcome: Err(message) } => {
                self.busy = false;
                // After a start that failed half way only a look tells what runs.
                self.observed.known &= !matches!(action, Action::Start(_));
                self.fail(id, action, message, now);
            }
            Event::Probed(question, answer) => self.health.answer(question, answer, now),
            Event::Ended(outcome) => {
                self.watched = false;
                match outcome {
                    Ok(run) => self.observe(run, now),
                    Err(message) => {
                        self.observed.known = false;
                        self.fail(id, Action::Inspect, message, now);
                    }
                }
            }
        }
        false
    }

    fn fail(&mut self, id: &InstanceId, action: Action, message: String, now: Instant) {
        tracing::warn!(%id, ?action, %message, "an operation failed and will be tried again");
        // What is on its way out does not fail to start.
        let going = action == Action::Save && self.desired.goal == Goal::Remove;
        let phase = if going { Phase::StoppingFailed } else { action.trouble_phase() };
        let trouble = Trouble { message, at: now, phase };
        self.observed.trouble = Some(trouble);
    }

    fn did(&mut self, action: Action, done: Done, now: Instant) -> bool {
        match done {
            Done::Saw(run) => self.observe(run, now),
            Done::Saved(revision) => self.observed.saved = revision == self.revision,
            Done::Asked => self.asked(action == Action::Kill, now),
            Done::Removed if self.desired.goal == Goal::Remove => return true,
            // The server changed its mind while the folder was being deleted.
            Done::Removed => self.observed = observed(true, false, now),
        }
        false
    }

    fn observe(&mut self, run: Option<Run>, now: Instant) {
        self.observed.known = true;
        if self.observed.run != run {
            if self.is_live() && self.observed.stop.is_none() {
                // It ended by itself; what its probes said of an earlier end is old.
                self.observed.failed_probe = None;
            }
            self.observed.since = now;
            self.observed.stop = None;
            self.observed.run = run;
            let live = self.is_live();
            self.health.begin(self.assignment.as_ref().filter(|_| live), now);
        }
    }

    /// What runs is what should run, so that only its health is a reason to stop it.
    fn is_as_wanted(&self) -> bool {
        let same = self.observed.run.as_ref().is_some_and(|run| run.hash == self.desired.hash);
        same && matches!(self.desired.goal, Goal::Run | Goal::Hold)
    }

    fn asked(&mut self, killed: bool, now: Instant) {
        if !self.is_live() {
            return;
        }
        if self.observed.stop.is_none() {
            self.observed.failed_probe = self.health.unhealthy().filter(|_| self.is_as_wanted());
        }
        let fresh = StopProgress { requested_at: now, killed_at: None, kills: 0 };
        let stop = self.observed.stop.get_or_insert(fresh);
        if killed {
            stop.killed_at = Some(now);
            stop.kills = stop.kills.saturating_add(1);
        }
    }
}

fn observed(known: bool, saved: bool, now: Instant) -> Observed {
    Observed { run: None, known, since: now, stop: None, saved, trouble: None, failed_probe: None }
}

//! What the probes of one instance say of its live run.
use crate::plan::Track;
use crate::probes;
use orrery_proto::apps::v1::Probe;
use orrery_proto::fleet::v1::Assignment;
use tokio::time::Instant;

/// Which of the two probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aspect {
    Readiness,
    Liveness,
}

/// A question to a run. An answer about an earlier run, or to a probe that was changed since, is void.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub aspect: Aspect,
    pub probe: Probe,
    round: u64,
}

/// The probes of one instance; empty while nothing runs.
#[derive(Debug, Default)]
pub(super) struct Health {
    readiness: Option<(Probe, Track)>,
    liveness: Option<(Probe, Track)>,
    /// Counts what makes older questions void.
    round: u64,
    live: bool,
}

impl Health {
    /// A run begins, or nothing runs any more.
    pub(super) fn begin(&mut self, assignment: Option<&Assignment>, now: Instant) {
        let spec = assignment.and_then(|assignment| assignment.spec.as_ref());
        let track = |probe: Option<&Probe>, good: bool| {
            probe.map(|probe| (probe.clone(), Track::new(probes::rhythm(probe), good, now)))
        };
        self.round += 1;
        self.live = assignment.is_some();
        self.readiness = track(spec.and_then(|spec| spec.readiness_probe.as_ref()), false);
        self.liveness = track(spec.and_then(|spec| spec.liveness_probe.as_ref()), true);
    }

    /// The assignment changed. Probes that changed begin anew; a run that is to be replaced is asked
    /// until it is gone.
    pub(super) fn redefine(&mut self, assignment: Option<&Assignment>, now: Instant) {
        if !self.live {
            return;
        }
        let spec = assignment.and_then(|assignment| assignment.spec.as_ref());
        let wanted = |aspect: Option<&(Probe, Track)>| aspect.map(|(probe, _)| probe.clone());
        let same = spec.is_some_and(|spec| {
            spec.readiness_probe == wanted(self.readiness.as_ref())
                && spec.liveness_probe == wanted(self.liveness.as_ref())
        });
        if !same {
            self.begin(assignment, now);
        }
    }

    /// Whether it can do its work; nothing when nobody asks.
    pub(super) fn ready(&self) -> Option<bool> {
        self.readiness.as_ref().map(|(_, track)| track.is_good())
    }

    /// Why it has to be started again, if so.
    pub(super) fn unhealthy(&self) -> Option<String> {
        let (_, track) = self.liveness.as_ref()?;
        (!track.is_good()).then(|| track.why().to_owned())
    }

    /// Why it cannot do its work, as soon as somebody asked it.
    pub(super) fn unready(&self) -> Option<String> {
        let (_, track) = self.readiness.as_ref()?;
        (!track.is_good() && !track.why().is_empty()).then(|| track.why().to_owned())
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let both = [&self.readiness, &self.liveness];
        both.into_iter().flatten().filter_map(|(_, track)| track.wake()).min()
    }

    /// What is to be asked now.
    pub(super) fn questions(&mut self, now: Instant) -> Vec<Question> {
        let round = self.round;
        let both =
            [(Aspect::Readiness, &mut self.readiness), (Aspect::Liveness, &mut self.liveness)];
        let due = both.into_iter().filter_map(|(aspect, probe)| {
            let (probe, track) = probe.as_mut()?;
            track.ask(now).then(|| Question { aspect, probe: probe.clone(), round })
        });
        due.collect()
    }

    pub(super) fn answer(&mut self, question: Question, answer: Result<(), String>, now: Instant) {
        let probe = match question.aspect {
            Aspect::Readiness => &mut self.readiness,
            Aspect::Liveness => &mut self.liveness,
        };
        if let Some((_, track)) = probe
            && question.round == self.round
        {
            track.answer(answer, now);
        }
    }
}

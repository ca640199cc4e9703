//! What the answers of a probe mean: a pure state machine.
//!
//! ```text
//!               failure_threshold bad in a row
//!   good ---------------------------------------> bad
//!        <---------------------------------------
//!               success_threshold good in a row
//! ```
//! A run begins as its probe's kind says: not ready before it was asked, and alive until it is proven
//! otherwise.
use std::time::Duration;
use tokio::time::Instant;

/// How often is asked, and how many answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    pub initial_delay: Duration,
    pub period: Duration,
    pub timeout: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
}

/// What is known through a probe, for one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    rhythm: Rhythm,
    good: bool,
    /// Answers in a row that speak against what is known.
    against: u32,
    /// Why the last answer was bad.
    why: String,
    next: Instant,
    asking: bool,
}

impl Track {
    /// Begins with a run; `good` is what counts until there is an answer.
    pub fn new(rhythm: Rhythm, good: bool, now: Instant) -> Self {
        let next = now + rhythm.initial_delay;
        Self { rhythm, good, against: 0, why: String::new(), next, asking: false }
    }

    pub fn is_good(&self) -> bool {
        self.good
    }

    /// Why the last answer was bad.
    pub fn why(&self) -> &str {
        &self.why
    }

    pub fn timeout(&self) -> Duration {
        self.rhythm.timeout
    }

    /// When to ask next; nothing while a question is open.
    pub fn wake(&self) -> Option<Instant> {
        (!self.asking).then_some(self.next)
    }

    /// Whether to ask now; then the question counts as asked.
    pub fn ask(&mut self, now: Instant) -> bool {
        let due = !self.asking && self.next <= now;
        self.asking |= due;
        due
    }

    /// Takes an answer in. The next question follows a period after this one was answered, so a slow
    /// program is not asked twice at once.
    pub fn answer(&mut self, answer: Result<(), String>, now: Instant) {
        self.asking = false;
        self.next = now + self.rhythm.period;
        let said_good = answer.is_ok();
        if let Err(why) = answer {
            self.why = why;
        }
        if said_good == self.good {
            self.against = 0;
            return;
        }
        self.against = self.against.saturating_add(1);
        let needed =
            if said_good { self.rhythm.success_threshold } else { self.rhythm.failure_threshold };
        if needed <= self.against {
            self.good = said_good;
            self.against = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rhythm(success_threshold: u32, failure_threshold: u32) -> Rhythm {
        Rhythm {
            initial_delay: Duration::from_secs(5),
            period: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            success_threshold,
            failure_threshold,
        }
    }

    /// Answers as "+-", what is known after each as the same.
    #[track_caller]
    fn check(good: bool, thresholds: (u32, u32), answers: &str, expect: &str) {
        let mut now = Instant::now();
        let mut track = Track::new(rhythm(thresholds.0, thresholds.1), good, now);
        let mut known = String::new();
        for answer in answers.chars() {
            now = track.wake().unwrap();
            assert!(track.ask(now) && !track.ask(now) && track.wake().is_none());
            track.answer(if answer == '+' { Ok(()) } else { Err("no".into()) }, now);
            known.push(if track.is_good() { '+' } else { '-' });
        }
        assert_eq!(known, expect);
    }

    #[test]
    fn answers_count_when_there_are_enough_in_a_row() {
        check(false, (1, 3), "-+", "-+");
        check(true, (1, 3), "--+---", "+++++-");
        check(true, (2, 1), "-+-++", "----+");
        check(false, (3, 3), "++-+++", "-----+");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_question_waits_and_the_next_follows_the_answer() {
        let start = Instant::now();
        let mut track = Track::new(rhythm(1, 1), true, start);
        assert!(!track.ask(start + Duration::from_secs(4)));
        assert!(track.ask(start + Duration::from_secs(5)));
        track.answer(Err("late".into()), start + Duration::from_secs(9));
        assert_eq!(track.wake(), Some(start + Duration::from_secs(11)));
        assert_eq!((track.is_good(), track.why()), (false, "late"));
    }

    proptest! {
        /// What is known changes only after enough answers in a row that all say the other thing.
        #[test]
        fn nothing_changes_without_enough_answers(
            answers in proptest::collection::vec(any::<bool>(), 0..60),
            thresholds in (1_u32..5, 1_u32..5),
            good in any::<bool>(),
        ) {
            let now = Instant::now();
            let mut track = Track::new(rhythm(thresholds.0, thresholds.1), good, now);
            for (at, answer) in answers.iter().enumerate() {
                let before = track.is_good();
                track.answer(if *answer { Ok(()) } else { Err(String::new()) }, now);
                if track.is_good() != before {
                    let needed = if *answer { thresholds.0 } else { thresholds.1 };
                    let last = &answers[(at + 1).saturating_sub(needed as usize)..=at];
                    prop_assert_eq!(last.len(), needed as usize);
                    prop_assert!(last.iter().all(|one| one == answer));
                }
            }
        }
    }
}

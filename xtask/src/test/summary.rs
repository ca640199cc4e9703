//! What is said before and after the steps.

use std::fmt;
use std::time::Duration;

use super::counts::Counts;
use super::step::Step;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

impl Outcome {
    pub fn of(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed("see above".to_owned()) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(reason) => write!(f, "FAILED ({reason})"),
            Self::NotRun(_) => f.write_str("NOT RUN"),
        }
    }
}

/// One step that is over.
pub struct Line {
    pub step: &'static str,
    pub outcome: Outcome,
    pub took: Duration,
}

/// Something that this machine could not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRun {
    pub what: String,
    pub reason: String,
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
    pub not_run: Vec<NotRun>,
    pub counts: Counts,
}

impl Report {
    /// What was not run is listed but is no failure: whoever must not be missing fails by itself.
    pub fn passed(&self) -> bool {
        self.lines.iter().all(|line| match line.outcome {
            Outcome::Passed | Outcome::NotRun(_) => true,
            Outcome::Failed(_) => false,
        })
    }
}

pub fn plan(steps: &[&Step]) -> String {
    let lines = steps.iter().enumerate();
    let lines =
        lines.map(|(index, step)| format!("\n  {} {:<8} {}", index + 1, step.name, step.about));
    format!("cargo xtask test will run:{}", lines.collect::<String>())
}

/// The table, what was not run, and as the very last line the count of tests, alone.
pub fn render(report: &Report) -> String {
    let mut lines = vec!["summary".to_owned()];
    for Line { step, outcome, took } in &report.lines {
        lines.push(format!("  {step:<8} {:>8.1} s  {outcome}", took.as_secs_f64()));
    }
    if !report.not_run.is_empty() {
        lines.push("NOT RUN".to_owned());
    }
    for NotRun { what, reason } in &report.not_run {
        lines.push(format!("  {what}: {reason}"));
    }
    // A run of other steps alone has nothing to count, and must not look like a run of no test.
    if report.lines.iter().any(|line| line.step == "test") {
        let Counts { passed, failed, skipped } = report.counts;
        lines.push(format!("tests: {passed} passed, {failed} failed, {skipped} skipped"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: &'static str, outcome: Outcome) -> Line {
        Line { step, outcome, took: Duration::from_millis(1250) }
    }

    #[test]
    fn the_end_of_a_run() {
        let mut report = Report {
            lines: vec![line("test", Outcome::Passed), line("deny", Outcome::NotRun("x".into()))],
            not_run: vec![NotRun { what: "deny".into(), reason: "not here".into() }],
            counts: Counts { passed: 5, failed: 0, skipped: 1 },
        };
        let expect = "summary\n  test          1.2 s  passed\n  deny          1.2 s  NOT RUN\n\
                      NOT RUN\n  deny: not here\ntests: 5 passed, 0 failed, 1 skipped";
        assert_eq!(render(&report), expect);
        assert!(report.passed());
        report.lines.push(line("fmt", Outcome::of(false)));
        assert!(!report.passed());
        assert!(render(&report).contains("FAILED (see above)"));
        report.lines.remove(0);
        assert!(!render(&report).contains("tests:"));
    }
}

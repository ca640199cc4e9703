//! The sentences that people read in `status.message`.
use super::{Desired, Goal, Observed, Phase, Words};
use crate::model::Exit;
use std::time::Duration;

/// The numbers that Linux gives to signals on every processor we build for.
const SIGNALS: [(i32, &str); 15] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
];

pub(super) fn running(desired: &Desired, observed: &Observed, warning: Option<&str>) -> Words {
    if desired.goal == Goal::Hold {
        let known = warning.map(|warning| format!("{warning}; ")).unwrap_or_default();
        let message = format!("{known}its assignment could not be read; waiting for the server");
        return Words::new(Phase::Running, message);
    }
    let phase = if desired.unready.is_some() { Phase::RunningNotReady } else { Phase::Running };
    let unready = desired.unready.as_ref().map(|why| format!("its readiness probe failed: {why}"));
    let before = observed.failed_probe.as_ref();
    let before =
        before.map(|why| format!("started again because its liveness probe failed: {why}"));
    let said = [unready, warning.map(str::to_owned), before].into_iter().flatten();
    Words::new(phase, said.collect::<Vec<_>>().join("; "))
}

/// "exited with code 3", "ended by SIGKILL".
pub(super) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with code {code}"),
        Exit::Signal(number) => match SIGNALS.iter().find(|(known, _)| *known == number) {
            Some((_, name)) => format!("ended by {name}"),
            None => format!("ended by signal {number}"),
        },
    }
}

/// "0.5 s", "4 s", "1.8 s", "42 s": short waits with one decimal, long ones without.
pub(super) fn seconds(wait: Duration) -> String {
    const DECIMALS_BELOW_TENTHS: u128 = 100;
    let tenths = wait.as_millis().div_ceil(100);
    let (whole, tenth) = (tenths / 10, tenths % 10);
    if tenths >= DECIMALS_BELOW_TENTHS {
        format!("{} s", whole + u128::from(tenth > 0))
    } else if tenth == 0 {
        format!("{whole} s")
    } else {
        format!("{whole}.{tenth} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_read_well() {
        for (millis, expect) in [
            (0, "0 s"),
            (1, "0.1 s"),
            (500, "0.5 s"),
            (999, "1 s"),
            (1_000, "1 s"),
            (4_000, "4 s"),
            (9_950, "10 s"),
            (10_000, "10 s"),
            (10_001, "11 s"),
            (60_000, "60 s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), expect, "{millis} ms");
        }
    }

    #[test]
    fn ends_read_well() {
        assert_eq!(ended(Exit::Code(3)), "exited with code 3");
        assert_eq!(ended(Exit::Signal(9)), "ended by SIGKILL");
        assert_eq!(ended(Exit::Signal(34)), "ended by signal 34");
    }
}

//! How many tests ran, read from the closing lines of the test runners.

/// Sums over everything that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// `Summary [ 1.1s] 43/53 tests run: 41 passed (2 slow), 2 failed, 0 skipped`
    pub fn add_nextest(&mut self, line: &str) {
        let line = without_colour(line);
        if let Some((_, counts)) = line.split_once(" run: ").filter(|_| line.contains("Summary ["))
        {
            self.add(counts, ',');
        }
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out`
    pub fn add_libtest(&mut self, line: &str) {
        if let Some(counts) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        {
            self.add(counts.1, ';');
        }
    }

    fn add(&mut self, counts: &str, separator: char) {
        for part in counts.split(separator) {
            let mut words = part.split_whitespace();
            let count = words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            match (words.next(), words.next()) {
                (Some("passed"), _) => self.passed += count,
                (Some("failed"), _) | (Some("timed"), Some("out")) | (Some("exec"), _) => {
                    self.failed += count;
                }
                (Some("skipped" | "ignored"), _) => self.skipped += count,
                _ => {}
            }
        }
    }
}

/// Terminal colours are `ESC [ ... m`.
fn without_colour(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(add: fn(&mut Counts, &str), line: &str, expect: (u64, u64, u64)) {
        let mut counts = Counts::default();
        add(&mut counts, line);
        assert_eq!((counts.passed, counts.failed, counts.skipped), expect, "{line}");
    }

    #[test]
    fn nextest() {
        let check = |line, expect| check(Counts::add_nextest, line, expect);
        check("     Summary [   1.102s] 53 tests run: 53 passed, 0 skipped", (53, 0, 0));
        check("     Summary [   0.4s] 43/53 tests run: 41 passed, 2 failed, 1 skipped", (41, 2, 1));
        check("     Summary [   0.4s] 1 test run: 1 passed (1 slow), 7 skipped\n", (1, 0, 7));
        check(
            "     Summary [   9s] 9 tests run: 5 passed (1 flaky), 3 timed out, 1 exec failed, 0 skipped",
            (5, 4, 0),
        );
        check(
            "\u{1b}[32;1m     Summary\u{1b}[0m [   1.1s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m0\u{1b}[0m skipped",
            (2, 0, 0),
        );
        check("        PASS [   0.1s] a test run: 5 passed", (0, 0, 0));
    }

    #[test]
    fn libtest() {
        let check = |line, expect| check(Counts::add_libtest, line, expect);
        check(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.1s",
            (3, 0, 1),
        );
        check(
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            (1, 2, 0),
        );
        check("running 3 tests", (0, 0, 0));
    }
}

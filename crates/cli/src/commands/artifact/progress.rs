//! How far a file is on its way: one line that changes, for people who look.
use crate::output::style;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use tokio::time::Instant;

/// More often than this nobody can read it.
const INTERVAL: Duration = Duration::from_millis(100);

pub struct Progress {
    title: String,
    done: u64,
    whole: Option<u64>,
    /// When the line was last written; nothing where nobody looks.
    shown: Option<Instant>,
    written: bool,
}

impl Progress {
    pub fn new(title: String, whole: Option<u64>) -> Self {
        let looks = std::io::stderr().is_terminal() && style::stderr().is_on();
        Self { title, done: 0, whole, shown: looks.then(Instant::now), written: false }
    }

    /// So many bytes more are there.
    pub fn add(&mut self, bytes: usize) {
        self.done += bytes as u64;
        let Some(shown) = &mut self.shown else { return };
        if shown.elapsed() < INTERVAL {
            return;
        }
        *shown = Instant::now();
        let line = line(&self.title, self.done, self.whole);
        // A terminal that is gone misses nothing.
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K{line}");
        self.written = true;
    }

    pub fn done(&self) -> u64 {
        self.done
    }
}

impl Drop for Progress {
    /// The line is for the time of waiting only.
    fn drop(&mut self) {
        if self.written {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

fn line(title: &str, done: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) if 0 < whole => {
            let percent = done.saturating_mul(100) / whole;
            format!("{title}  {} of {} ({percent} %)", size(done), size(whole))
        }
        Some(_) | None => format!("{title}  {}", size(done)),
    }
}

/// `1.5 MiB`
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while 10_240 <= tenths {
        let Some(next) = units.next() else { break };
        tenths /= 1024;
        unit = Some(next);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, unit.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (48 << 20, "48.0 MiB"),
            (3 << 40, "3.0 TiB"),
        ];
        for (bytes, expect) in cases {
            assert_eq!(size(bytes), expect);
        }
    }

    #[test]
    fn a_line_says_how_much_there_is() {
        assert_eq!(line("x", 512, Some(1024)), "x  512 B of 1.0 KiB (50 %)");
        assert_eq!(line("x", 512, None), "x  512 B");
        assert_eq!(line("x", 0, Some(0)), "x  0 B");
    }
}

//! This process in figures, under the names that every dashboard knows.
use super::reading::{counter, gauge};
use prometheus_client::registry::Registry;

/// Kernel ticks in a second. It is 100 on every Linux that we run on, and part of its interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Places of fields in `/proc/self/stat`, counted after the name of the program.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;
const VIRTUAL_BYTES: usize = 20;
const RESIDENT_PAGES: usize = 21;

pub fn register(registry: &mut Registry) {
    counter(
        registry,
        "process_cpu_seconds",
        "Time that processors worked for this process",
        || Some((stat(USER_TICKS)? + stat(SYSTEM_TICKS)?) / TICKS_PER_SECOND),
    );
    gauge(registry, "process_resident_memory_bytes", "Memory in use", || {
        #[allow(clippy::cast_precision_loss, reason = "a page has a few thousand bytes")]
        let page = rustix::param::page_size() as f64;
        Some(stat(RESIDENT_PAGES)? * page)
    });
    gauge(registry, "process_virtual_memory_bytes", "Memory that is mapped", || {
        stat(VIRTUAL_BYTES)
    });
    gauge(registry, "process_open_fds", "Files and connections that are open", open_files);
    gauge(registry, "process_max_fds", "Files and connections that may be open", max_files);
    gauge(registry, "process_start_time_seconds", "When it was started", start_time);
}

/// One field of `/proc/self/stat`.
fn stat(place: usize) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    field(&text, place)
}

/// The name of the program may hold spaces and brackets; what follows the last bracket is plain.
fn field(stat: &str, place: usize) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "there are not that many files")]
fn open_files() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

fn max_files() -> Option<f64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The kernel says when it was started itself, and when this process was, counted from there.
fn start_time() -> Option<f64> {
    let kernel = std::fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = kernel.lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(booted + stat(START_TICKS)? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_move_the_fields() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 110 120 13 14 15 16 17 18 190 200 21";
        assert_eq!(field(stat, USER_TICKS), Some(110.0));
        assert_eq!(field(stat, SYSTEM_TICKS), Some(120.0));
        assert_eq!(field(stat, START_TICKS), Some(190.0));
        assert_eq!(field(stat, VIRTUAL_BYTES), Some(200.0));
        assert_eq!(field(stat, 99), None);
    }

    #[test]
    fn this_process_can_be_read() {
        for read in [open_files, max_files, start_time] {
            assert!(read().is_some_and(|value| 0.0 < value));
        }
        assert!(stat(RESIDENT_PAGES).is_some_and(|pages| 0.0 < pages));
    }
}

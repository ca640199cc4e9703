//! The pages of the program itself, of which a server that runs needs few.
//!
//! To start, a program reads most of itself: arguments, definitions, every part that is put together. The kernel
//! keeps the pages in its cache, and maps those around each one that is touched along with it. What is given back
//! here stays in that cache, and comes back, sixteen pages at a time, where it is needed again.
use std::io;
use std::path::Path;

/// A part of the address space that holds bytes of the program's file, and nothing else.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    start: usize,
    bytes: usize,
}

/// Gives the pages of the program back; how many bytes they cover.
pub fn give_back() -> io::Result<usize> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let parts = unchanged(&std::fs::read_to_string("/proc/self/smaps")?, &program);
    parts.iter().try_for_each(release)?;
    Ok(parts.iter().map(|part| part.bytes).sum())
}

#[allow(unsafe_code, reason = "a part of our own program is known by its addresses alone")]
fn release(part: &Part) -> io::Result<()> {
    use rustix::mm::{Advice, madvise};
    let start = std::ptr::with_exposed_provenance_mut(part.start);
    // SAFETY: the part is mapped as long as the program runs, cannot be written to, and no page of it differs from
    // the file. Whoever reads it after this reads the same bytes from there.
    unsafe { madvise(start, part.bytes, Advice::LinuxDontNeed) }?;
    Ok(())
}

/// The parts of a program in `/proc/PID/smaps` that cannot be written to, and of which no page was: constants that
/// were put right when the program was loaded exist in memory only.
fn unchanged(smaps: &str, program: &Path) -> Vec<Part> {
    let mut found = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        match line.strip_prefix("Anonymous:") {
            Some(changed) if changed.trim() == "0 kB" => found.extend(current.take()),
            Some(_) => current = None,
            None => {
                // `START-END rwxp OFFSET DEVICE INODE PATH` begins a part; other lines are `Name: value`.
                let mut words = line.splitn(6, ' ');
                let (range, mode) = (words.next().unwrap_or_default(), words.next());
                let Some((start, end)) = addresses(range) else { continue };
                let fixed = matches!(mode, Some("r-xp" | "r--p"));
                let path = words.nth(3).unwrap_or_default().trim_start();
                current = (fixed && Path::new(path) == program)
                    .then_some(Part { start, bytes: end.saturating_sub(start) });
            }
        }
    }
    found
}

fn addresses(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 r--p 00000000 fe:00 77                         /bin/orrery
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
3000-8000 r-xp 00002000 fe:00 77                         /bin/orrery
Rss:                  20 kB
Anonymous:             0 kB
8000-9000 r--p 00007000 fe:00 77                         /bin/orrery
Anonymous:             4 kB
9000-a000 rw-p 00008000 fe:00 77                         /bin/orrery
Anonymous:             0 kB
a000-b000 r-xp 00000000 fe:00 78                         /lib/libc.so.6
Anonymous:             0 kB
b000-c000 r--p 00000000 00:00 0
Anonymous:             0 kB
";

    #[test]
    fn only_what_is_as_in_the_file_is_given_back() {
        let parts = unchanged(SMAPS, Path::new("/bin/orrery"));
        let whole = |start, bytes| Part { start, bytes };
        assert_eq!(parts, [whole(0x1000, 0x2000), whole(0x3000, 0x5000)]);
    }

    #[test]
    fn a_program_goes_on_without_its_pages() {
        let first = give_back().expect("it can be given back");
        assert!(0 < first, "the program has parts that do not change");
        let again = give_back().expect("the same once more, by code that came back");
        assert_eq!(first, again);
    }
}

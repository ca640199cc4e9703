//! A few files as an archive that the kernel unpacks: appended to an initramfs, they are in it.

/// The mode of a folder and of a file that only root reads.
const FOLDER: u32 = 0o040_700;
const FILE: u32 = 0o100_700;
const LAST: &str = "TRAILER!!!";

/// Begins with padding: an archive begins at a multiple of four after whatever stands before it.
pub fn append(before: &mut Vec<u8>, folder: &str, files: &[(&str, &[u8])]) {
    pad(before);
    let mut number = 0;
    let mut entry = |out: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]| {
        number += 1;
        header(out, number, name, mode, content.len());
        out.extend_from_slice(content);
        pad(out);
    };
    entry(before, folder, FOLDER, &[]);
    for (name, content) in files {
        entry(before, &format!("{folder}/{name}"), FILE, content);
    }
    entry(before, LAST, 0, &[]);
}

/// The "newc" format: thirteen numbers of eight hexadecimal digits, then the name.
fn header(out: &mut Vec<u8>, number: u32, name: &str, mode: u32, size: usize) {
    let (links, name_size) = (1, name.len() + 1);
    let numbers = [number as usize, mode as usize, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
    out.extend_from_slice(b"070701");
    for number in numbers {
        out.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    while !out.len().is_multiple_of(4) {
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_last_is_the_end() {
        let mut archive = b"abc".to_vec();
        append(&mut archive, "orrery", &[("user-data", b"#!/bin/sh\n")]);
        assert_eq!(&archive[4..10], b"070701");
        assert_eq!(archive.len() % 4, 0);
        let text = String::from_utf8_lossy(&archive);
        assert!(text.contains("orrery/user-data") && text.contains(LAST));
        let entries = text.matches("070701").count();
        assert_eq!(entries, 3, "a folder, a file and the end");
    }
}

use super::{TARGETS, Target};
use proptest::prelude::*;

/// One step away from an input.
#[derive(Clone, Debug)]
enum Mutation {
    Flip { at: usize, bit: u8 },
    Set { at: usize, byte: u8 },
    Insert { at: usize, text: &'static str },
    Remove { at: usize, count: usize },
    Repeat { at: usize, count: usize, times: usize },
    Splice { at: usize, seed: usize, from: usize },
}

/// Pieces that grammars turn on.
const WORDS: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "-",
    "null",
    "true",
    "1e999",
    "-0",
    "9223372036854775808",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "é",
    "&a",
    "*a",
    "!!int ",
    "---\n",
    "\n  ",
    "%",
    "%2e",
    "..",
    "/",
    "~1",
    "=",
    "!=",
    " in (",
    ")",
    ";q=",
    "metadata",
    "name",
    "spec",
    "\u{ff}",
    "18446744073709551616",
    "{}",
    "[]",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || 0..4096_usize;
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set { at, byte }),
        (at(), prop::sample::select(WORDS)).prop_map(|(at, text)| Mutation::Insert { at, text }),
        (at(), 1..32_usize).prop_map(|(at, count)| Mutation::Remove { at, count }),
        (at(), 1..16_usize, 1..200_usize).prop_map(|(at, count, times)| Mutation::Repeat {
            at,
            count,
            times
        }),
        (at(), any::<usize>(), at()).prop_map(|(at, seed, from)| Mutation::Splice {
            at,
            seed,
            from
        }),
    ]
}

fn mutated(target: &Target, seed: usize, mutations: &[Mutation]) -> Vec<u8> {
    let seed_of = |seed: usize| target.seeds[seed % target.seeds.len()].as_bytes();
    let mut bytes = seed_of(seed).to_vec();
    for mutation in mutations {
        let place = |at: usize| if bytes.is_empty() { 0 } else { at % bytes.len() };
        match *mutation {
            Mutation::Flip { at, bit } => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
            Mutation::Set { at, byte } => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|old| *old = byte);
            }
            Mutation::Insert { at, text } => {
                let at = place(at);
                bytes.splice(at..at, text.bytes());
            }
            Mutation::Remove { at, count } => {
                let at = place(at);
                bytes.drain(at..bytes.len().min(at + count));
            }
            Mutation::Repeat { at, count, times } => {
                let at = place(at);
                let piece = bytes[at..bytes.len().min(at + count)].repeat(times);
                bytes.splice(at..at, piece);
            }
            Mutation::Splice { at, seed, from } => {
                let at = place(at);
                let other = seed_of(seed);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from % other.len()..]);
            }
        }
    }
    bytes
}

#[test]
fn every_seed_holds() {
    for target in TARGETS {
        (target.run)(b"");
        for seed in target.seeds {
            (target.run)(seed.as_bytes());
        }
    }
}

#[test]
fn names_are_unique_and_every_target_has_a_seed() {
    for (place, target) in TARGETS.iter().enumerate() {
        assert!(!target.seeds.is_empty(), "{}", target.name);
        let first = TARGETS.iter().position(|other| other.name == target.name);
        assert_eq!(first, Some(place), "{}", target.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Every target, so that a test run finds what is near the seeds; what is far, the soak finds.
    #[test]
    fn every_mutation_holds(
        seed: usize,
        mutations in prop::collection::vec(mutation(), 1..8),
    ) {
        for target in TARGETS {
            (target.run)(&mutated(target, seed, &mutations));
        }
    }

    #[test]
    fn anything_at_all_holds(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        for target in TARGETS {
            (target.run)(&bytes);
        }
    }
}

//! Everything that reads what strangers send, under inputs that nobody would think of.
//!
//! ```text
//!   TARGETS ─┬─> tests: seeds and their mutations, in every test run          (cargo xtask test)
//!            └─> libFuzzer: inputs that reach new code, for as long as wanted (cargo xtask soak fuzz)
//! ```
//! Owns: which decoders there are, what each must hold for every input, and inputs to begin with.
//! Not in it: the decoders.
//!
//! A target is a function from bytes that panics when something does not hold. That it returns at all
//! is the first thing that must; most also say that what was read can be written and read again.
mod targets;

pub use targets::TARGETS;

/// One decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Inputs that lead into the depth of it.
    pub seeds: &'static [&'static str],
    /// Panics when something does not hold.
    pub run: fn(&[u8]),
}

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests;

//! What libFuzzer drives: one target, named by `ORRERY_FUZZ_TARGET`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use orrery_fuzz::{Target, find};
use std::sync::OnceLock;

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fn chosen() -> &'static Target {
    CHOSEN.get_or_init(|| {
        let name = std::env::var("ORRERY_FUZZ_TARGET").unwrap_or_default();
        find(&name).unwrap_or_else(|| panic!("ORRERY_FUZZ_TARGET names no target: {name:?}"))
    })
}

fuzz_target!(|bytes: &[u8]| (chosen().run)(bytes));

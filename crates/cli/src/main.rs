//! The `orrery` binary.
use std::process::ExitCode;

/// A server takes apart and puts together small objects all day, on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    orrery_cli::main(std::env::args_os())
}

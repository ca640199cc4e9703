//! The `orrery` binary.
use std::process::ExitCode;

fn main() -> ExitCode {
    orrery_cli::main(std::env::args_os())
}

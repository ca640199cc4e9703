//! The `terraform-provider-orrery` binary, which Terraform starts.
use std::process::ExitCode;

fn main() -> ExitCode {
    orrery_terraform::main(|name| std::env::var(name).ok())
}

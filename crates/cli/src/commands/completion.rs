//! `orrery completion`: the script that teaches a shell to ask this binary.
use crate::args::{CompletionArguments, ShellName};
use crate::complete::VARIABLE;
use crate::output::print;
use anyhow::Context as _;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

pub fn run(arguments: &CompletionArguments) -> anyhow::Result<()> {
    let shell: &dyn EnvCompleter = match arguments.shell {
        ShellName::Bash => &Bash,
        ShellName::Zsh => &Zsh,
        ShellName::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "orrery", "orrery", "orrery", &mut script)
        .context("write the script")?;
    print::text(&String::from_utf8(script).context("write the script")?)
}

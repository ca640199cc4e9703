//! The page of the commands.
use crate::args::Arguments;
use clap::{Command, CommandFactory as _};

/// Width of the help in the page.
const WIDTH: usize = 100;

pub fn page() -> String {
    let mut out = String::from(
        "# The command line\n\nWhat `orrery COMMAND --help` says. Exit codes: 0 done, 1 the answer is no \
         or something failed, 2 the command was not understood, 3 the server is not available, 130 \
         interrupted; `orrery diff` answers 1 for differences and more for failures.\n",
    );
    let mut root = steady(Arguments::command());
    root.build();
    section(&mut out, &mut root, "orrery");
    out
}

/// Without what depends on the place where the page is made.
fn steady(command: Command) -> Command {
    let command = command.term_width(WIDTH).mut_args(|argument| argument.hide_env_values(true));
    command.mut_subcommands(steady)
}

fn section(out: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *out += &format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for inner in command.get_subcommands_mut() {
        if inner.is_hide_set() || inner.get_name() == "help" {
            continue;
        }
        let name = format!("{name} {}", inner.get_name());
        section(out, inner, &name);
    }
}

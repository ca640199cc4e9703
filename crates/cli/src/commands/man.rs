//! `orrery man`: manual pages from the definitions of the commands.
use crate::args::{Arguments, ManArguments};
use crate::output::print;
use anyhow::Context as _;
use clap::CommandFactory as _;

pub fn run(arguments: &ManArguments) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let failed = || format!("write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).with_context(failed)?;
    print::line(&format!("manual pages are in {}", folder.display()))
}

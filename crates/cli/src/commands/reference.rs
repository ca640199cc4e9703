//! `orrery reference`: the pages in `docs/reference`.
use crate::args::ReferenceArguments;
use crate::output::print;
use crate::reference;
use anyhow::Context as _;

pub fn run(arguments: &ReferenceArguments) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let pages = reference::pages()?;
    for (name, text) in &pages {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    print::line(&format!("{} pages are in {}", pages.len(), folder.display()))
}

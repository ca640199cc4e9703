//! Where things are on a person's machine.
use anyhow::Context as _;
use std::path::PathBuf;

/// The contexts file.
pub fn config(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(path) => Ok(path),
        None => orrery_client::context::usual_file(|name| std::env::var_os(name))
            .context("neither XDG_CONFIG_HOME nor HOME is set"),
    }
}

/// The folder that holds everything.
pub fn data(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match given {
        Some(path) => std::path::absolute(&path)
            .with_context(|| format!("find the data folder {}", path.display())),
        None => Ok(base("XDG_DATA_HOME", ".local/share")?.join("orrery")),
    }
}

fn base(variable: &str, below_home: &str) -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(variable).filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.with_context(|| format!("neither {variable} nor HOME is set"))?;
    Ok(PathBuf::from(home).join(below_home))
}

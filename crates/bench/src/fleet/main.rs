//! `cargo xtask bench fleet [PART...]`: fake agents over real gRPC on loopback, on the work that a peer
//! was measured with. Its figures stand beside ours.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table, and what went wrong"
)]
mod agents;
mod delivery;
mod idle;
mod lists;
mod starts;
mod states;
mod storm;
mod work;

use std::path::Path;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    let at = |part: &str| -> std::path::PathBuf { Path::new(folder.path()).join(part) };
    if wanted("change") {
        delivery::one_change(&at("change")).await?;
    }
    if wanted("delivery") {
        delivery::many(&at("delivery")).await?;
    }
    if wanted("states") {
        states::measure(&at("states")).await?;
    }
    if wanted("lists") {
        lists::measure(&at("lists")).await?;
    }
    if wanted("idle") {
        idle::measure(&at("idle")).await?;
    }
    if wanted("starts") {
        starts::measure(&at("starts")).await?;
    }
    if wanted("storm") {
        storm::measure(&at("storm")).await?;
    }
    Ok(())
}

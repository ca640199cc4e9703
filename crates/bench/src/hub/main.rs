//! `cargo xtask bench hub`: the hub beside etcd, on the same disk in the same run.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
mod scale;
mod server;
mod throughput;
mod watchers;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    throughput::measure(folder.path()).await?;
    watchers::measure(folder.path()).await?;
    scale::measure(folder.path()).await?;
    Ok(())
}

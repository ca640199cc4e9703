//! `cargo xtask bench hub [throughput] [watchers] [scale] [turns]`: the hub beside etcd, on the same disk in
//! the same run. Without arguments, all but the turns, which are the applies of 64 clients alone, again and again.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
mod resources;
mod scale;
mod throughput;
mod watchers;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    if wanted("throughput") {
        throughput::measure(folder.path()).await?;
    }
    if wanted("watchers") {
        watchers::measure(folder.path()).await?;
    }
    if wanted("scale") {
        scale::measure(folder.path()).await?;
    }
    if asked.iter().any(|asked| asked == "turns") {
        throughput::in_turns(folder.path()).await?;
    }
    Ok(())
}

//! `cargo xtask bench hub [throughput] [watchers] [scale]`: the hub beside etcd, on the same disk in the same run;
//! all of it, and the turns, without arguments. `cargo xtask bench hub turns [PROGRAM...]`: the applies of 64 clients
//! alone, again and again, of this build or of others.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod scale;
mod throughput;
mod turns;
mod watchers;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?.join("target"))?;
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("turns", programs)) =
        asked.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        return turns::measure(folder.path(), programs).await;
    }
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    if wanted("throughput") {
        throughput::measure(folder.path()).await?;
    }
    if asked.is_empty() {
        turns::measure(folder.path(), &[]).await?;
    }
    if wanted("watchers") {
        watchers::measure(folder.path()).await?;
    }
    if wanted("scale") {
        scale::measure(folder.path()).await?;
    }
    Ok(())
}

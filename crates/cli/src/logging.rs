//! Logs go to standard error, so that output can be piped.
use crate::output::style;
use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Starts logging. `filter` is what the person asked for, `default` what fits the command.
pub fn start(filter: Option<&str>, default: &str) -> anyhow::Result<()> {
    let text = filter.unwrap_or(default);
    let filter = EnvFilter::try_new(text).with_context(|| {
        format!("read the log filter {text:?} (try info, or orrery_fleet=debug)")
    })?;
    let colour = style::stderr().is_on();
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (in tests) keeps the first.
    let _ = format.with_ansi(colour).with_target(false).try_init();
    Ok(())
}

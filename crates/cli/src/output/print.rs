//! Text on standard output and standard error.
use anyhow::Context as _;
use jiff::Timestamp;
use orrery_proto::hub::v1::{Resource, resource::Body};
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};

/// One line on standard output. A reader that is gone is an error, not a panic.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}").context("write to standard output")
}

/// Several lines in one write.
pub fn lines(lines: &[String]) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    line(&lines.join("\n"))
}

/// Text as it is, without a line end of ours.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).context("write to standard output")?;
    stdout.flush().context("write to standard output")
}

/// One line for the person, which does not belong to the output.
pub fn note(text: &str) {
    // Nothing is left to tell somebody who does not listen.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether lines can be changed after they were written.
pub fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    std::io::stdout().is_terminal() && !dumb
}

/// The JSON of a resource, without who set which field: nobody wants to read that unasked.
pub fn json(resource: Option<&Resource>) -> anyhow::Result<Value> {
    let mut object = whole_json(resource)?;
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.shift_remove("managedFields");
    }
    Ok(object)
}

/// The JSON of a resource that was asked for as JSON.
pub fn whole_json(resource: Option<&Resource>) -> anyhow::Result<Value> {
    match resource.and_then(|resource| resource.body.as_ref()) {
        Some(Body::Json(text)) => serde_json::from_str(text).context("read the server's answer"),
        Some(Body::Protobuf(_)) | None => anyhow::bail!("the server did not answer in JSON"),
    }
}

/// Ages are told in this machine's time.
#[allow(clippy::disallowed_methods)] // A person's terminal is the one place that needs it.
pub fn now() -> Timestamp {
    Timestamp::now()
}

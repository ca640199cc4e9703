//! Logs go to standard error, so that output can be piped; traces go to a collector.
use crate::args::{Global, LogFormat};
use crate::output::style;
use anyhow::Context as _;
use orrery_trace::Sending;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// Variables that name a collector, in the words of OpenTelemetry.
const COLLECTOR_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Logging, and sending of traces, until it is dropped.
pub struct Logging {
    _sending: Option<Sending>,
}

/// Starts logging, within a runtime. `default` is what is logged when nobody says what.
pub fn start(global: &Global, default: &str) -> anyhow::Result<Logging> {
    let asked = global.log.clone().or_else(|| std::env::var("RUST_LOG").ok());
    let text = asked.filter(|text| !text.is_empty()).unwrap_or_else(|| default.to_owned());
    let filter = EnvFilter::try_new(&text).with_context(|| {
        format!("read the log filter {text:?} (try info, or orrery_fleet=debug)")
    })?;
    let base = fmt::layer().with_writer(std::io::stderr);
    let lines = match global.log_format {
        LogFormat::Text => {
            base.with_ansi(style::stderr().is_on()).with_target(false).with_filter(filter).boxed()
        }
        LogFormat::Json => {
            base.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed()
        }
    };
    let endpoint = global.otlp_endpoint.as_deref();
    let (sent, problem) = match wants_traces(endpoint, |name| std::env::var(name).ok()) {
        false => (None, None),
        true => match orrery_trace::sending(endpoint, orrery_client::VERSION) {
            Ok(sent) => (Some(sent), None),
            Err(problem) if endpoint.is_some() => return Err(problem.into()),
            // Variables speak to every program of a machine; none of them should fail for it.
            Err(problem) => (None, Some(problem)),
        },
    };
    let (sink, sending) = sent.unzip();
    // A second start in one process (in tests) keeps the first.
    let _ = tracing_subscriber::registry().with(sink).with(lines).try_init();
    if let Some(problem) = problem {
        tracing::warn!("{problem}");
    }
    Ok(Logging { _sending: sending })
}

/// Whether traces are sent: because somebody says where to, or because the environment does and does not
/// say otherwise.
fn wants_traces(endpoint: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> bool {
    let named =
        COLLECTOR_VARIABLES.iter().any(|name| variable(name).is_some_and(|it| !it.is_empty()));
    let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let elsewhere = variable("OTEL_TRACES_EXPORTER").is_some_and(|it| it == "none");
    endpoint.is_some() || named && !disabled && !elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_turns_traces_on_and_off() {
        let with = |pairs: &[(&str, &str)], endpoint: Option<&str>| {
            let found = |name: &str| pairs.iter().find(|(key, _)| *key == name);
            wants_traces(endpoint, |name| found(name).map(|(_, value)| (*value).to_owned()))
        };
        let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317");
        assert!(!with(&[], None));
        assert!(with(&[collector], None));
        assert!(!with(&[(collector.0, "")], None));
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(!with(&[collector, off], None), "{off:?}");
            assert!(with(&[off], Some("http://127.0.0.1:4317")), "said by a person");
        }
    }
}

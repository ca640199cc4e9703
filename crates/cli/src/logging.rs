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
    let named = COLLECTOR_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    let (sink, sending) = if global.otlp_endpoint.is_some() || named {
        let endpoint = global.otlp_endpoint.as_deref();
        let (sink, sending) = orrery_trace::sending(endpoint, orrery_client::VERSION)?;
        (Some(sink), Some(sending))
    } else {
        (None, None)
    };
    // A second start in one process (in tests) keeps the first.
    let _ = tracing_subscriber::registry().with(sink).with(lines).try_init();
    Ok(Logging { _sending: sending })
}

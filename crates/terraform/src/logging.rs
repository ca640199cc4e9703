//! The log goes to standard error, in the form that Terraform reads: `[WARN] words`.
use std::fmt;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What is logged when nobody says what; Terraform shows it with TF_LOG alone.
const USUAL: &str = "warn,orrery=info";

/// Starts logging. A filter that cannot be read is replaced by the usual one, which says so.
pub fn start(filter: Option<&str>) {
    let asked = filter.filter(|text| !text.is_empty()).unwrap_or(USUAL);
    let (filter, problem) = match EnvFilter::try_new(asked) {
        Ok(filter) => (filter, None),
        Err(problem) => (EnvFilter::new(USUAL), Some(problem)),
    };
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    // A second start in one process keeps the first.
    let _ = lines.event_format(Lines).try_init();
    if let Some(problem) = problem {
        tracing::warn!(%problem, "ORRERY_LOG is no filter");
    }
}

struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "[{}] ", event.metadata().level())?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

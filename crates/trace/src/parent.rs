//! `traceparent`: which trace something belongs to, in one line.
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

const TRACEPARENT: &str = "traceparent";
/// As long as the line is in every version of the standard that we read; more is not looked at.
const LENGTH_MAX: usize = 128;

/// One header.
#[derive(Default)]
struct Line(String);

impl Injector for Line {
    fn set(&mut self, key: &str, value: String) {
        if key == TRACEPARENT {
            self.0 = value;
        }
    }
}

impl Extractor for Line {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACEPARENT && !self.0.is_empty()).then_some(self.0.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}

/// The trace of the span at hand; empty when nothing is traced.
pub fn current() -> String {
    let mut line = Line::default();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut line);
    line.0
}

/// Makes a span part of the trace that a caller named. What is no such name is ignored: the caller is
/// served all the same.
pub fn adopt(span: &Span, trace_parent: &str) {
    if trace_parent.is_empty() || LENGTH_MAX < trace_parent.len() {
        return;
    }
    let line = Line(trace_parent.to_owned());
    let context = TraceContextPropagator::new().extract(&line);
    // Refused only where no trace is taken, or the span has begun; both are fine.
    let _ = span.set_parent(context);
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt as _;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_that_is_taken_in_is_passed_on() {
        let tracer = SdkTracerProvider::builder().build().tracer("test");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("request");
            adopt(&span, &format!("00-{TRACE}-00f067aa0ba902b7-01"));
            let passed_on = span.in_scope(current);
            assert!(passed_on.contains(TRACE), "{passed_on}");
            assert!(!passed_on.contains("00f067aa0ba902b7"), "the parent is now this span");
            for bad in ["", "nonsense", "00-zz-zz-01", &"0".repeat(1000)] {
                let span = tracing::info_span!("request");
                adopt(&span, bad);
                assert!(!span.in_scope(current).contains(TRACE), "{bad}");
            }
        });
    }

    #[test]
    fn without_a_collector_there_is_no_trace() {
        assert_eq!(tracing::info_span!("request").in_scope(current), "");
    }
}

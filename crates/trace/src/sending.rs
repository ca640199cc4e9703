//! Spans on their way to a collector.
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use std::path::PathBuf;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{Filtered, Targets};
use tracing_subscriber::registry::LookupSpan;

/// The name under which a collector shows us, unless `OTEL_SERVICE_NAME` says another.
const SERVICE: &str = "orrery";

/// Names a file with the authority of the collector, in the words of OpenTelemetry.
const CERTIFICATE_VARIABLE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// Where requests and what they do have their spans, of a level that nobody pays for who takes no traces.
const REQUESTS: [&str; 3] =
    ["orrery_server::gate", "orrery_hub::layers::admission", "orrery_server::metrics::store"];

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot send traces: {0}")]
    Exporter(opentelemetry_otlp::ExporterBuildError),
    #[error("cannot send traces: cannot read {}, which {CERTIFICATE_VARIABLE} names: {cause}", .path.display())]
    Certificate { path: PathBuf, cause: std::io::Error },
}

/// Where spans go, as a part of a subscriber.
pub type Sink<S> = Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S>;

/// Sends until it is dropped; then it sends what is left.
#[derive(Debug)]
pub struct Sending {
    provider: SdkTracerProvider,
}

/// Sends our own spans to a collector that speaks OTLP over gRPC, in batches. Must be called within a
/// runtime. What is not said by `endpoint` (headers, timeouts, sampling, the name of the service) the
/// usual `OTEL_` variables say. With `https` its certificate must be of an authority that this machine
/// trusts, or of the one that a variable names. A collector that is away costs the spans and nothing else.
pub fn sending<S>(endpoint: Option<&str>, version: &str) -> Result<(Sink<S>, Sending), Error>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let mut exporter = SpanExporter::builder().with_tonic().with_tls_config(trusted()?);
    if let Some(endpoint) = endpoint {
        exporter = exporter.with_endpoint(endpoint);
    }
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(SERVICE);
    }
    let version = opentelemetry::KeyValue::new("service.version", version.to_owned());
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter.build().map_err(Error::Exporter)?)
        .with_resource(resource.with_attribute(version).build())
        .build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SERVICE));
    // Our own spans only: those of the transport would trace the sending of traces.
    let ours = Targets::new()
        .with_target(SERVICE, LevelFilter::INFO)
        .with_targets(REQUESTS.map(|target| (target, LevelFilter::DEBUG)));
    Ok((layer.with_filter(ours), Sending { provider }))
}

/// Whom we trust to be a collector.
fn trusted() -> Result<ClientTlsConfig, Error> {
    let config = ClientTlsConfig::new();
    let Some(path) = std::env::var_os(CERTIFICATE_VARIABLE).map(PathBuf::from) else {
        return Ok(config.with_native_roots());
    };
    match std::fs::read(&path) {
        Ok(pem) => Ok(config.ca_certificate(Certificate::from_pem(pem))),
        Err(cause) => Err(Error::Certificate { path, cause }),
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        // A collector that is away must not turn a good end into a failure.
        if let Err(error) = self.provider.shutdown() {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

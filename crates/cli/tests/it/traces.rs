//! Traces arrive at a collector, and logs can be read by programs.
use crate::harness::{Home, ORRERY, until};
use crate::tls;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use orrery_pki::Role;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

/// Keeps every span that it is sent.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        self.spans.lock().unwrap().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts one, and says where it is.
    fn start(&self, runtime: &tokio::runtime::Runtime) -> String {
        format!("http://{}", self.serve(runtime, Server::builder()))
    }

    fn serve(&self, runtime: &tokio::runtime::Runtime, mut server: Server) -> SocketAddr {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server
            .add_service(TraceServiceServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        runtime.spawn(serving);
        address
    }

    fn of_trace(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.lock().unwrap();
        let own = |span: &&Span| hex(&span.trace_id) == trace;
        spans.iter().filter(own).cloned().collect()
    }

    fn named(&self, name: &str) -> Vec<Span> {
        self.spans.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }
}

/// The text of an attribute.
fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[test]
fn a_request_is_traced_from_its_caller_into_the_store() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let collector = Collector::default();
    let endpoint = collector.start(&runtime);
    let home = Home::new();
    let traced = ["--otlp-endpoint".to_owned(), endpoint.clone()];
    let (_server, url) = home.server("data", &traced);

    // A client that has a trace of its own.
    let body = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"traced"}}"#;
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(
        stream,
        "POST /api/v1/namespaces HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         traceparent: 00-{TRACE}-{PARENT}-01\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 201 "), "{answer}");
    let (request, accessor, commit) = until("the spans of the request arrive", || {
        let spans = collector.of_trace(TRACE);
        let named = |name: &str| spans.iter().find(|span| span.name == name).cloned();
        Some((named("request")?, named("accessor")?, named("commit")?))
    });
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!(accessor.parent_span_id, request.span_id, "the write is a part of the request");
    assert_eq!(commit.parent_span_id, accessor.span_id, "and the commit of the write");

    // The command line begins a trace, and the server goes on with it.
    home.orrery(&["get", "projects", "--server", &url, "--otlp-endpoint", &endpoint]).good();
    let (request, accessor) =
        until("the server goes on with the trace of the command line", || {
            let commands = collector.named("command");
            let spans = collector.of_trace(&hex(&commands.first()?.trace_id));
            let listing = |span: &&Span| {
                span.name == "accessor" && attribute(span, "operation").as_deref() == Some("list")
            };
            let accessor = spans.iter().find(listing)?.clone();
            let request = spans.iter().find(|span| span.span_id == accessor.parent_span_id)?;
            Some((request.clone(), accessor))
        });
    assert_eq!(request.name, "request", "the read is a part of the request");
    assert_eq!(attribute(&accessor, "kind").as_deref(), Some("Project"));
    // What controllers do is traced too.
    until("a reconciliation arrives", || collector.named("reconcile").first().map(|_| ()));
}

/// Named by the environment alone, as on machines that trace everything.
#[test]
fn a_collector_may_speak_tls() {
    let (runtime, home) = (tokio::runtime::Runtime::new().unwrap(), Home::new());
    let files = tls::identity(&tls::authority(), &home, Role::Server, "collector");
    let [_, root, _, certificate, _, key] = files.as_slice() else { panic!("{files:?}") };
    let identity = [certificate, key].map(|file| std::fs::read(file).unwrap());
    let own = ServerTlsConfig::new().identity(Identity::from_pem(&identity[0], &identity[1]));
    let collector = Collector::default();
    let address = collector.serve(&runtime, Server::builder().tls_config(own).unwrap());
    let (_server, url) = home.server("data", &[]);
    let traced = |trust: &str| {
        let mut command = home.command(ORRERY);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("https://{address}"));
        command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", trust);
        command.args(["get", "projects", "--server", &url]).output().unwrap()
    };
    let output = traced(root);
    assert!(output.status.success(), "{output:?}");
    until("the span of the command arrives", || collector.named("command").first().map(|_| ()));
    // What is wrong with it is said, and the command does what it should.
    let output = traced("/nowhere/root.pem");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("/nowhere/root.pem"), "{said}");
}

#[test]
fn logs_are_json_when_asked_for() {
    let home = Home::new();
    let (_server, _url) = home.server("data", &["--log-format".to_owned(), "json".to_owned()]);
    let text = std::fs::read_to_string(home.path("data.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let serving = lines.iter().find(|line| {
        line["message"].as_str().is_some_and(|message| message.contains("serving on"))
    });
    assert_eq!(serving.unwrap()["level"], "INFO");
}

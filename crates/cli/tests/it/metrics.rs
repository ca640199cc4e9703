//! Figures: a real Prometheus reads them, and what `deploy/` names is there.
use crate::harness::{Home, Process, http_get, repository, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// A Prometheus of the test's own that reads one server.
struct Prometheus {
    _process: Process,
    address: String,
}

impl Prometheus {
    fn start(home: &Home, server: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let alerts = repository().join("deploy/prometheus/orrery-alerts.yaml");
        let config = format!(
            "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: [{alerts:?}]\n\
             scrape_configs:\n- job_name: orrery\n  static_configs: [{{targets: [{server:?}]}}]\n"
        );
        let config = home.write("prometheus.yaml", config);
        let mut command = home.command("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", home.path("tsdb").display()));
        command.arg(format!("--web.listen-address={address}"));
        let log = std::fs::File::create(home.path("prometheus.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { _process: Process(child), address }
    }

    /// What a query finds; nothing while it does not answer yet.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = http_get(&self.address, &format!("/api/v1/query?query={encoded}"));
        let Some((200, body)) = answer else { return Vec::new() };
        let body: Value = serde_json::from_str(&body).unwrap();
        body["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

#[test]
fn prometheus_reads_the_figures_of_a_server() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    home.orrery(&["apply", "-f", "examples/hello.yaml", "--server", &url]).good();
    let prometheus = Prometheus::start(&home, &address(&url));
    let found = until("Prometheus has read the requests of the command line", || {
        let found = prometheus
            .query(r#"orrery_api_requests_total{kind="Workload",verb="patch",code="200"}"#);
        found.first().cloned()
    });
    assert_eq!(found["metric"]["transport"], "commander");
    assert_eq!(found["value"][1], "1", "one workload was applied");
    for expression in [
        "up{job=\"orrery\"} == 1",
        "orrery_server_leader == 1",
        "orrery_store_revision > 1",
        "orrery_store_size_bytes > 0",
        "orrery_controller_reconciles_total{outcome=\"done\"} > 0",
        "orrery_api_request_duration_seconds_count > 0",
        "process_resident_memory_bytes > 1000000",
        "orrery_build_info",
    ] {
        until(expression, || (!prometheus.query(expression).is_empty()).then_some(()));
    }
}

/// The names of our figures in an expression.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = |word: &&str| word.starts_with("orrery_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_figures_that_are_there() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    home.orrery(&["apply", "-f", "examples/hello.yaml", "--server", &url]).good();
    let wanted: BTreeSet<String> =
        ["deploy/prometheus/orrery-alerts.yaml", "deploy/grafana/orrery.json"]
            .iter()
            .flat_map(|file| names(&std::fs::read_to_string(repository().join(file)).unwrap()))
            .collect();
    assert!(10 < wanted.len(), "{wanted:?}");
    // A watch is counted while it is open.
    let mut watch = TcpStream::connect(address(&url)).unwrap();
    write!(watch, "GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let missing = until("every figure is there", || {
        let (code, text) = http_get(&address(&url), "/metrics").unwrap();
        assert_eq!(code, 200);
        let given: BTreeSet<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        let missing: Vec<&String> =
            wanted.iter().filter(|name| !given.contains(name.as_str())).collect();
        // Figures of what has not happened yet come with the first time that it happens.
        home.orrery(&["get", "workloads", "-A", "--server", &url]).good();
        missing.is_empty().then_some(missing.len())
    });
    assert_eq!(missing, 0);
}

#[test]
fn the_alert_rules_are_good_rules() {
    let rules = repository().join("deploy/prometheus/orrery-alerts.yaml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(rules).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

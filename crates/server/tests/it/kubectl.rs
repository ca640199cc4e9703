//! kubectl itself, against a server in this process.
//!
//! Where kubectl is the dispatcher of a cloud SDK, the real one beside it is used. An older kubectl
//! (Debian's) does what it can: each test says which version it needs.
use crate::support::{PATIENCE, World};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_pki::{ADMINS, Authority, IssueRequest, Role, Validity};
use sha2::{Digest as _, Sha256};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

const WORKLOAD: &str = "apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {name: web, labels: {app: web}}
spec:
  process: {command: sleep, args: [\"100\"]}
  placement: {nodes: [n1]}
";

struct Kubectl {
    world: World,
    program: PathBuf,
    minor: u32,
    home: tempfile::TempDir,
}

struct Said {
    ok: bool,
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn good(self) -> String {
        assert!(self.ok, "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    fn bad(self, message: &str) {
        assert!(!self.ok, "{}", self.out);
        assert!(self.err.contains(message), "{}", self.err);
    }
}

const CLUSTER: &str = "apiVersion: infra.orrery.dev/v1
kind: Addon
metadata: {name: log}
spec: {version: \"1.0\", template: {process: {command: sleep, args: [\"100\"]}}}
---
apiVersion: infra.orrery.dev/v1
kind: Blueprint
metadata: {name: base}
spec: {addons: [{name: log}]}
---
apiVersion: infra.orrery.dev/v1
kind: Cluster
metadata: {name: edge}
spec: {process: {}, pools: [{name: workers, replicas: 0}], blueprint: base}
";

/// The newest kubectl that fits the server's dialect, and its minor version.
fn find() -> (PathBuf, u32) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    let found = on_path.into_iter().find(|program| program.is_file()).expect("kubectl on PATH");
    let real = std::fs::canonicalize(&found).expect("a program");
    let beside = real.with_file_name("kubectl.1.32");
    let program = if beside.is_file() { beside } else { found };
    let said =
        std::process::Command::new(&program).args(["version", "--client", "-o", "json"]).output();
    let said = said.expect("kubectl runs").stdout;
    let version: serde_json::Value = serde_json::from_slice(&said).expect("a version");
    let minor = version["clientVersion"]["minor"].as_str().expect("a minor version");
    let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
    (program, digits.parse().expect("a number"))
}

impl Kubectl {
    async fn start() -> Self {
        let world = World::start().await;
        let cluster = format!("server: {}", world.url());
        Self::with(world, &cluster, "")
    }

    fn with(world: World, cluster: &str, user: &str) -> Self {
        let (program, minor) = find();
        let home = tempfile::tempdir().expect("a folder");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: o\nclusters: [{{name: o, cluster: {{{cluster}}}}}]\nusers: [{{name: o, user: {{{user}}}}}]\ncontexts: [{{name: o, context: {{cluster: o, user: o, namespace: default}}}}]\n",
        );
        std::fs::write(home.path().join("kubeconfig"), config).expect("written");
        std::fs::write(home.path().join("web.yaml"), WORKLOAD).expect("written");
        Self { world, program, minor, home }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(self.home.path()).env("HOME", self.home.path());
        command.env("KUBECONFIG", self.file("kubeconfig")).env("KUBECACHEDIR", self.file("cache"));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn run(&self, words: &[&str]) -> Said {
        self.finish(self.command(words)).await
    }

    async fn finish(&self, mut command: Command) -> Said {
        let said = tokio::time::timeout(PATIENCE, command.output()).await;
        let said = said.expect("kubectl ends in time").expect("kubectl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { ok: said.status.success(), out: text(&said.stdout), err: text(&said.stderr) }
    }

    async fn good(&self, words: &[&str]) -> String {
        self.run(words).await.good()
    }

    /// Controllers may write a state between what `kubectl diff` reads and what it tries: then it is asked again.
    async fn no_difference(&self, words: &[&str]) {
        let mut said = self.run(words).await;
        let same = async {
            while !said.ok {
                said = self.run(words).await;
            }
        };
        let same = tokio::time::timeout(PATIENCE, same).await;
        assert!(same.is_ok(), "it differs all the time");
    }

    async fn pipe(&self, words: &[&str], input: &str) -> Said {
        let mut command = self.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).await.expect("written");
        drop(stdin);
        let said = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let said = said.expect("kubectl ends in time").expect("kubectl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { ok: said.status.success(), out: text(&said.stdout), err: text(&said.stderr) }
    }
}

#[tokio::test]
async fn kubectl_gets_in_every_form() {
    let k = Kubectl::start().await;
    k.good(&["apply", "-f", "web.yaml"]).await;
    let table = k.good(&["get", "wl"]).await;
    assert!(
        table.starts_with("NAME") && table.contains("STATE") && !table.contains("REASON"),
        "{table}"
    );
    assert!(k.good(&["get", "workloads", "-o", "wide"]).await.contains("REASON"));
    assert!(k.good(&["get", "wl", "-A"]).await.starts_with("NAMESPACE"));
    assert!(k.good(&["get", "wl", "web", "-o", "yaml"]).await.contains("command: sleep"));
    assert_eq!(k.good(&["get", "wl", "-o", "name"]).await, "workload.apps.orrery.dev/web\n");
    assert!(k.good(&["get", "wl", "-l", "app=web", "--show-labels"]).await.contains("app=web"));
    assert!(k.run(&["get", "wl", "-l", "app=db"]).await.err.contains("No resources found"));
    assert!(k.good(&["get", "wl", "--sort-by", ".metadata.name"]).await.contains("web"));
    assert!(k.good(&["get", "all"]).await.contains("workload"));
    let column = ["get", "wl", "-o", "custom-columns=X:.spec.process.command", "--no-headers"];
    assert_eq!(k.good(&column).await.trim(), "sleep");
    k.run(&["get", "wl", "nope"])
        .await
        .bad("(NotFound): workloads.apps.orrery.dev \"nope\" not found");
    k.run(&["get", "wl", "web", "-n", "nope"]).await.bad("namespaces \"nope\" not found");
    k.run(&["get", "poems"]).await.bad("the server doesn't have a resource type \"poems\"");
    let poem = WORKLOAD.replace("kind: Workload", "kind: Poem");
    k.pipe(&["apply", "-f", "-"], &poem).await.bad("no matches for kind \"Poem\"");
}

#[tokio::test]
async fn kubectl_watches() {
    let k = Kubectl::start().await;
    k.good(&["apply", "-f", "web.yaml"]).await;
    let mut command = k.command(&["get", "wl", "-w", "-o", "name"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().expect("kubectl runs");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        seen.push(line.expect("a line in time").expect("readable").expect("a line"));
        if seen.len() == 1 {
            k.good(&["label", "wl", "web", "x=y"]).await;
        }
    }
    assert_eq!(seen, ["workload.apps.orrery.dev/web"; 2]);
    watching.kill().await.expect("ended");
}

#[tokio::test]
async fn kubectl_describes_with_events_and_explains() {
    let k = Kubectl::start().await;
    k.good(&["apply", "-f", "web.yaml"]).await;
    let text = k.good(&["describe", "wl", "web"]).await;
    assert!(text.contains("Name:         web") && text.contains("Events:"), "{text}");
    let explained = k.good(&["explain", "workload.spec"]).await;
    assert!(
        explained.contains("restartPolicy") && explained.contains("Where it runs"),
        "{explained}"
    );
    assert!(k.good(&["explain", "ns"]).await.contains("names are unique"));
    let kinds = k.good(&["api-resources"]).await;
    assert!(kinds.contains("workloads") && kinds.contains("namespaces"), "{kinds}");
    assert!(k.good(&["api-versions"]).await.contains("apps.orrery.dev/v1"));
    assert!(k.good(&["version"]).await.contains("orrery"));
}

#[tokio::test]
async fn kubectl_applies_on_its_own_side() {
    let k = Kubectl::start().await;
    assert!(k.good(&["apply", "-f", "web.yaml"]).await.contains("web created"));
    assert!(k.good(&["apply", "-f", "web.yaml"]).await.contains("web unchanged"));
    let changed = WORKLOAD.replace("100", "200");
    std::fs::write(k.file("web.yaml"), &changed).expect("written");
    let diff = k.run(&["diff", "-f", "web.yaml"]).await;
    assert!(
        diff.out.contains("+    - \"200\"") && !diff.out.contains("annotations"),
        "{}{}",
        diff.out,
        diff.err
    );
    assert!(
        k.good(&["apply", "--dry-run=server", "-f", "web.yaml"]).await.contains("(server dry run)")
    );
    assert!(k.good(&["apply", "-f", "web.yaml"]).await.contains("web configured"));
    k.no_difference(&["diff", "-f", "web.yaml"]).await;
    let args = ["get", "wl", "web", "-o", "jsonpath={.spec.process.args[0]}"];
    assert_eq!(k.good(&args).await, "200");
    let wrong = changed.replace("placement", "placemint");
    k.pipe(&["apply", "-f", "-"], &wrong).await.bad("placemint");
}

#[tokio::test]
async fn kubectl_applies_on_the_servers_side() {
    let k = Kubectl::start().await;
    let apply = ["apply", "--server-side", "-f", "web.yaml"];
    assert!(k.good(&apply).await.contains("web serverside-applied"));
    assert!(k.good(&apply).await.contains("web serverside-applied"));
    k.no_difference(&["diff", "--server-side", "-f", "web.yaml"]).await;
    std::fs::write(k.file("web.yaml"), WORKLOAD.replace("100", "300")).expect("written");
    k.good(&apply).await;
    assert!(k.good(&["get", "wl", "web", "-o", "yaml"]).await.contains("\"300\""));
}

/// Whoever applied on their own side so far goes on without a conflict, and what they take out of the
/// file goes.
#[tokio::test]
async fn kubectl_changes_sides() {
    let k = Kubectl::start().await;
    k.good(&["apply", "-f", "web.yaml"]).await;
    let changed = WORKLOAD.replace("100", "400").replace(", labels: {app: web}", "");
    std::fs::write(k.file("web.yaml"), changed).expect("written");
    let said = k.good(&["apply", "--server-side", "-f", "web.yaml"]).await;
    assert!(said.contains("web serverside-applied"), "{said}");
    let found = ["get", "wl", "web", "-o", "jsonpath={.spec.process.args[0]} {.metadata.labels}"];
    assert_eq!(k.good(&found).await, "400 ");
    let holders = ["get", "wl", "web", "-o", "jsonpath={.metadata.finalizers}"];
    assert!(k.good(&holders).await.contains("orrery.dev/instances"), "what the server set stays");
}

#[tokio::test]
async fn kubectl_creates_replaces_patches_and_edits() {
    let k = Kubectl::start().await;
    assert!(k.good(&["create", "-f", "web.yaml"]).await.contains("web created"));
    k.run(&["create", "-f", "web.yaml"]).await.bad("(AlreadyExists)");
    std::fs::write(k.file("web.yaml"), WORKLOAD.replace("100", "7")).expect("written");
    assert!(k.good(&["replace", "-f", "web.yaml"]).await.contains("web replaced"));
    let merge = ["patch", "wl", "web", "--type=merge", "-p", "{\"spec\":{\"stopGraceSeconds\":4}}"];
    assert!(k.good(&merge).await.contains("web patched"));
    let json = "[{\"op\":\"replace\",\"path\":\"/spec/stopGraceSeconds\",\"value\":5}]";
    assert!(
        k.good(&["patch", "wl", "web", "--type=json", "-p", json]).await.contains("web patched")
    );
    k.run(&["patch", "wl", "web", "-p", "{}"]).await.bad("accepted media types include");
    assert!(k.good(&["label", "wl", "web", "tier=front"]).await.contains("web labeled"));
    assert!(k.good(&["annotate", "wl", "web", "note=x"]).await.contains("web annotated"));
    let mut edit = k.command(&["edit", "wl", "web"]);
    edit.env("KUBE_EDITOR", "sed -i s/stopGraceSeconds:.5/stopGraceSeconds:\\ 6/");
    assert!(k.finish(edit).await.good().contains("web edited"));
    let grace = [
        "get",
        "wl",
        "web",
        "-o",
        "jsonpath={.spec.stopGraceSeconds} {.metadata.labels.tier} {.metadata.annotations.note}",
    ];
    assert_eq!(k.good(&grace).await, "6 front x");
    let invalid =
        ["patch", "wl", "web", "--type=merge", "-p", "{\"spec\":{\"stopGraceSeconds\":-1}}"];
    k.run(&invalid)
        .await
        .bad("The Workload \"web\" is invalid: spec.stopGraceSeconds: Invalid value");
    assert!(k.good(&["replace", "--force", "-f", "web.yaml"]).await.contains("web replaced"));
}

#[tokio::test]
async fn kubectl_waits_and_deletes() {
    let k = Kubectl::start().await;
    k.good(&["create", "ns", "demo"]).await;
    k.good(&["apply", "-n", "demo", "-f", "web.yaml"]).await;
    let met = k
        .good(&["wait", "-n", "demo", "wl/web", "--for=condition=Ready=False", "--timeout=30s"])
        .await;
    assert!(met.contains("condition met"), "{met}");
    if 23 <= k.minor {
        let state = [
            "wait",
            "-n",
            "demo",
            "wl/web",
            "--for=jsonpath={.status.state}=Pending",
            "--timeout=30s",
        ];
        k.good(&state).await;
    }
    assert!(k.good(&["delete", "-n", "demo", "wl", "web"]).await.contains("deleted"));
    k.run(&["get", "-n", "demo", "wl", "web"]).await.bad("not found");
    // Before 1.23 this is an error when the object is gone already.
    if 23 <= k.minor {
        k.good(&["wait", "-n", "demo", "wl/web", "--for=delete", "--timeout=30s"]).await;
    }
    k.good(&["apply", "-n", "demo", "-f", "web.yaml"]).await;
    k.good(&["delete", "-n", "demo", "wl", "--all"]).await;
    k.good(&["delete", "ns", "demo"]).await;
    k.run(&["get", "ns", "demo"]).await.bad("not found");
    k.good(&["delete", "wl", "web", "--ignore-not-found"]).await;
}

#[tokio::test]
async fn kubectl_scales() {
    let k = Kubectl::start().await;
    let counted =
        WORKLOAD.replace("{nodes: [n1]}", "{selector: {matchLabels: {a: b}}, replicas: 2}");
    k.pipe(&["apply", "-f", "-"], &counted).await.good();
    assert!(k.good(&["scale", "wl", "web", "--replicas=3"]).await.contains("web scaled"));
    let when = ["scale", "wl/web", "--current-replicas=3", "--replicas=0"];
    assert!(k.good(&when).await.contains("web scaled"));
    k.run(&when).await.bad("Expected replicas to be 3, was 0");
    k.run(&["scale", "wl/web", "--replicas=99999"]).await.bad("spec.placement.replicas");
    if 24 <= k.minor {
        let scale = k.good(&["get", "wl", "web", "--subresource=scale"]).await;
        assert!(scale.contains("DESIRED") && scale.contains("AVAILABLE"), "{scale}");
    }
    let placed = WORKLOAD.replace("name: web", "name: pinned");
    k.pipe(&["apply", "-f", "-"], &placed).await.good();
    k.run(&["scale", "wl/pinned", "--replicas=3"]).await.bad("The Workload \"pinned\" is invalid");
}

/// The verbs that are left, each as people use it.
#[tokio::test]
async fn kubectl_does_the_rest() {
    let k = Kubectl::start().await;
    k.good(&["apply", "-f", "web.yaml"]).await;
    assert!(k.good(&["explain", "wl", "--recursive"]).await.contains("matchLabels"));
    assert!(k.good(&["apply", "view-last-applied", "wl/web"]).await.contains("command: sleep"));
    assert!(k.good(&["label", "wl", "web", "--list"]).await.contains("app=web"));
    let prune = [
        "apply",
        "-f",
        "web.yaml",
        "--prune",
        "-l",
        "app=web",
        "--prune-whitelist=apps.orrery.dev/v1/Workload",
    ];
    let prune_since_26 = [
        "apply",
        "-f",
        "web.yaml",
        "--prune",
        "-l",
        "app=web",
        "--prune-allowlist=apps.orrery.dev/v1/Workload",
    ];
    let other = WORKLOAD.replace("name: web", "name: other");
    k.pipe(&["apply", "-f", "-"], &other).await.good();
    let pruned = k.good(if k.minor < 26 { &prune } else { &prune_since_26 }).await;
    assert!(pruned.contains("workload.apps.orrery.dev/other pruned"), "{pruned}");
    assert!(k.good(&["delete", "wl", "web", "--dry-run=server"]).await.contains("server dry run"));
    let grace = ["delete", "wl", "web", "--grace-period=0", "--force"];
    assert!(k.good(&grace).await.contains("deleted"));
    assert_eq!(k.good(&["get", "--raw", "/livez"]).await, "ok");
    let ready = k.good(&["get", "--raw", "/readyz?verbose"]).await;
    assert!(ready.contains("[+]store ok") && ready.ends_with("readyz check passed\n"), "{ready}");
    k.good(&["get", "wl", "--chunk-size=1", "-A", "--ignore-not-found"]).await;
    if 24 <= k.minor {
        k.good(&["create", "-f", "web.yaml"]).await;
        let status = "{\"status\":{\"message\":\"hello\"}}";
        let patch = ["patch", "wl", "web", "--subresource=status", "--type=merge", "-p", status];
        assert!(k.good(&patch).await.contains("web patched"));
    }
    if 31 <= k.minor {
        k.good(&["wait", "wl/web", "--for=create", "--timeout=30s"]).await;
    }
}

#[tokio::test]
async fn kubectl_asks_what_it_may_do() {
    let k = Kubectl::start().await;
    assert_eq!(k.good(&["auth", "can-i", "create", "workloads"]).await, "yes\n");
    assert!(k.good(&["auth", "can-i", "--list"]).await.contains("*.*"));
    if 27 <= k.minor {
        assert!(k.good(&["auth", "whoami"]).await.contains("system:anonymous"));
    }
    k.run(&["--as=bob", "auth", "can-i", "delete", "workloads"]).await.bad("");
    k.run(&["--as=bob", "get", "nodes"]).await.bad("user \"bob\" cannot list nodes");
    assert!(k.good(&["get", "ns"]).await.contains("Active"));
    k.good(&["label", "ns", "default", "team=a"]).await;
    assert!(
        k.good(&["get", "ns", "-l", "team=a", "-o", "name"]).await.contains("namespace/default")
    );
    k.run(&["delete", "ns", "system"]).await.bad("(Forbidden)");
    assert!(Path::new(&k.file("cache")).is_dir() || k.minor < 22, "discovery was cached");
    drop(k.world);
}

/// A certificate says who someone is, over HTTP/2 as kubectl speaks it on TLS.
#[tokio::test]
async fn kubectl_shows_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let domain = "orrery.test".parse().expect("a domain");
    let validity = Validity::starting(now(), Duration::from_secs(3600));
    let authority = Authority::generate(&domain, validity).expect("an authority");
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name).ip(Ipv4Addr::LOCALHOST).group(ADMINS);
        let issued = authority.issue(&request, validity).expect("issued");
        issued.write_to(&folder.path().join(name)).expect("written")
    };
    let (server, user) = (issue(Role::Server, "server"), issue(Role::User, "alice"));
    let path = |file: &Option<PathBuf>| file.as_ref().expect("a file").display().to_string();
    let world = World::start_with(server).await;
    let cluster = format!(
        "server: \"https://{}\", certificate-authority: {}",
        world.address,
        path(&user.root)
    );
    let who =
        format!("client-certificate: {}, client-key: {}", path(&user.certificate), path(&user.key));
    let k = Kubectl::with(world, &cluster, &who);
    k.good(&["apply", "-f", "web.yaml"]).await;
    assert!(k.good(&["get", "wl"]).await.contains("web"));
    if 28 <= k.minor {
        let me = k.good(&["auth", "whoami"]).await;
        assert!(me.contains("alice") && me.contains("orrery:user"), "{me}");
    }
}

/// The one place of these tests that reads the clock: certificates are judged by the real one.
#[allow(clippy::disallowed_methods)]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// proves: HUB-09
#[tokio::test]
async fn kubectl_reads_what_is_shared() {
    let k = Kubectl::start().await;
    for project in ["a", "b"] {
        k.good(&["create", "namespace", project]).await;
    }
    let secret = |namespace: &str, sharing: &str| {
        format!(
            "apiVersion: core.orrery.dev/v1\nkind: Secret\nmetadata: {{name: db, namespace: {namespace}}}\nspec:\n  data: {{key: aHVzaA==}}\n  sharing: {sharing}\n"
        )
    };
    let shared = secret("a", "{enabled: true, projects: [{name: b}]}");
    k.pipe(&["apply", "-f", "-"], &shared).await.good();
    let secrets = "secrets.core.orrery.dev";
    assert!(k.good(&["get", secrets, "-n", "b"]).await.contains("db"));
    assert_eq!(k.good(&["get", secrets, "-A", "--no-headers"]).await.lines().count(), 1);
    let described = k.good(&["describe", secrets, "db", "-n", "b"]).await;
    assert!(described.contains("orrery.dev/shared-from: a"), "{described}");
    let yaml = k.good(&["get", secrets, "db", "-n", "b", "-o", "yaml"]).await;
    assert!(yaml.contains("namespace: b") && !yaml.contains("last-applied"), "{yaml}");
    k.run(&["delete", secrets, "db", "-n", "b"]).await.bad("can only be read here");
    k.run(&["label", secrets, "db", "-n", "b", "x=y"]).await.bad("can only be read here");
    k.pipe(&["apply", "-n", "b", "-f", "-"], &yaml).await.bad("shared");
    // One of its own hides it, and goes with a wait although the other appears.
    k.pipe(&["create", "-f", "-"], &secret("b", "{enabled: false}")).await.good();
    assert!(!k.good(&["describe", secrets, "db", "-n", "b"]).await.contains("shared-from"));
    k.good(&["delete", secrets, "db", "-n", "b"]).await;
    assert!(k.good(&["describe", secrets, "db", "-n", "b"]).await.contains("shared-from: a"));
    k.pipe(&["apply", "-f", "-"], &secret("a", "{enabled: false}")).await.good();
    k.run(&["get", secrets, "db", "-n", "b"]).await.bad("NotFound");
}

/// A set of objects that is applied and pruned together; one of ours stands for it, marked as kubectl wants it.
#[tokio::test]
async fn kubectl_applies_a_set() {
    let k = Kubectl::start().await;
    let id = URL_SAFE_NO_PAD.encode(Sha256::digest("site.default.Secret.core.orrery.dev"));
    let parent = format!(
        "apiVersion: core.orrery.dev/v1
kind: Secret
metadata:
  name: site
  labels: {{applyset.kubernetes.io/id: applyset-{id}-v1}}
  annotations: {{applyset.kubernetes.io/tooling: kubectl/v1.27, applyset.kubernetes.io/contains-group-kinds: \"\"}}
spec: {{data: {{a: aHVzaA==}}}}
"
    );
    k.pipe(&["create", "-f", "-"], &parent).await.good();
    let both = format!("{WORKLOAD}---\n{}", WORKLOAD.replace("name: web", "name: other"));
    std::fs::write(k.file("both.yaml"), both).expect("written");
    let apply = async |file: &str, parent: &str| {
        let words = ["apply", "-n", "default", "-f", file, "--prune", parent];
        let mut command = k.command(&words);
        command.env("KUBECTL_APPLYSET", "true");
        k.finish(command).await
    };
    // Sets came with 1.27.
    if 27 <= k.minor {
        let parent = "--applyset=secrets.core.orrery.dev/site";
        apply("both.yaml", parent).await.good();
        let pruned = apply("web.yaml", parent).await.good();
        assert!(pruned.contains("workload.apps.orrery.dev/other pruned"), "{pruned}");
        assert_eq!(k.good(&["get", "wl", "-o", "name"]).await, "workload.apps.orrery.dev/web\n");
        let written = "--applyset=workloadinstances.apps.orrery.dev/site";
        apply("web.yaml", written).await.bad("is not permitted as an ApplySet parent");
    }
}

/// A cluster, its blueprint and its addon, as kubectl has them.
#[tokio::test]
async fn kubectl_has_clusters() {
    let k = Kubectl::start().await;
    std::fs::write(k.file("cluster.yaml"), CLUSTER).expect("written");
    k.good(&["apply", "-f", "cluster.yaml"]).await;
    k.good(&["wait", "--for=condition=Ready", "cluster/edge", "--timeout=30s"]).await;
    let table = k.good(&["get", "clusters,blueprints,addons"]).await;
    for word in ["MACHINES", "0/0", "1/1", "Ready", "process", "CLUSTERS", "VERSION", "1.0"] {
        assert!(table.contains(word), "{word} is not in:\n{table}");
    }
    let explained = k.good(&["explain", "cluster.spec.pools", "--api-version=infra.orrery.dev/v1"]);
    assert!(explained.await.contains("maxSurge"));
    let twice = CLUSTER.replace("[{name: log}]", "[{name: log}, {name: log}]");
    std::fs::write(k.file("twice.yaml"), twice).expect("written");
    let refused = k.run(&["apply", "-f", "twice.yaml"]).await;
    refused.bad("spec.addons[1].name: Duplicate value: \"log\"");
    k.good(&["delete", "-f", "cluster.yaml", "--timeout=30s"]).await;
    let left = k.good(&["get", "workloads,machinedeployments,machineclasses"]).await;
    assert_eq!(left, "", "it takes everything along");
}

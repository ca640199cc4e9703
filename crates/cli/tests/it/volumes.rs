//! Volumes from their declaration to a program that finds its data again.
use crate::harness::{ORRERY, Process, until};
use crate::podman::{IMAGE, Podman};
use crate::storage::Site;
use std::process::Stdio;

const PROJECT: &str = "
apiVersion: core.orrery.dev/v1
kind: Project
metadata: {name: shop}
---
apiVersion: storage.orrery.dev/v1
kind: Volume
metadata: {name: data, project: shop}
spec: {size: 32Mi}
";

impl Site {
    fn agent(&self, name: &str) -> Process {
        self.agent_with(name, &[])
    }

    fn agent_with(&self, name: &str, env: &[(String, String)]) -> Process {
        let mut command = self.home.command(ORRERY);
        command.args(["agent", "--name", name, "--server", &self.url, "--stop-workloads"]);
        command.arg("--data-dir").arg(self.home.path("agent")).stderr(Stdio::null());
        // Where nobody listens, so that the agent starts a podman with this environment.
        command.arg("--podman-socket").arg(self.home.path("nobody.sock"));
        command.envs(env.iter().cloned());
        Process(command.spawn().unwrap())
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        self.home.orrery(&[arguments, &["--server", &self.url, "-p", "shop"]].concat()).good()
    }

    pub fn apply(&self, text: &str) {
        let file = self.home.write("manifest.yaml", text);
        let file = file.to_str().unwrap();
        self.home.orrery(&["apply", "-f", file, "--server", &self.url]).good();
    }

    /// Waits until a field of a resource reads so.
    #[track_caller]
    pub fn reads(&self, resource: &str, path: &str, wanted: &str) {
        let path = format!("jsonpath={{{path}}}");
        let get = ["get", resource, "-o", &path, "--server", &self.url, "-p", "shop"];
        let mut last = String::new();
        until(&format!("{resource} has {wanted} at {path}"), || {
            let done = self.home.orrery(&get);
            last = format!("{}{}", done.out, done.err);
            (done.out.trim() == wanted).then_some(())
        });
    }

    /// A program that adds a line to its volume, prints what is there, and stays.
    fn writer(&self, line: &str) {
        let place = self.home.path("seen").display().to_string();
        let script = format!("echo {line} >> {place}/log; cat {place}/log; exec sleep 86400");
        self.apply(&format!(
            "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {{name: writer, project: shop}}
spec:
  process: {{command: /bin/sh, args: ['-c', '{script}']}}
  volumes: [{{volume: data, path: {place}}}]
  placement: {{nodes: [host-1]}}
"
        ));
        self.reads("workload/writer", ".status.state", "Running");
    }

    /// The same in a container.
    fn container(&self, script: &str, read_only: bool) {
        self.apply(&format!(
            "
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {{name: boxed, project: shop}}
spec:
  podman:
    image: {IMAGE}
    command: [/bin/sh, -c]
    args: ['trap \"exit 0\" TERM; {script}; while :; do sleep 0.1; done']
    network: none
    pull: never
  stopGraceSeconds: 2
  volumes: [{{volume: data, path: /data, readOnly: {read_only}}}]
  placement: {{nodes: [host-1]}}
"
        ));
        self.reads("workload/boxed", ".status.state", "Running");
    }

    fn until_logged(&self, workload: &str, lines: &[&str]) {
        until(&format!("{workload} has said {lines:?}"), || {
            let said = self.run(&["logs", workload]);
            lines.iter().all(|line| said.contains(line)).then_some(())
        });
    }

    fn until_detached(&self) {
        until("it is detached", || {
            self.run(&["get", "volumeattachments", "-o", "name"]).trim().is_empty().then_some(())
        });
    }
}

/// proves: VOL-05
/// proves: VOL-08
#[test]
fn a_volume_outlives_its_workload_grows_and_is_copied() {
    let site = Site::start();
    let _controller = site.controller("host-1");
    let _agent = site.agent("host-1");
    site.apply(PROJECT);
    site.reads("volume/data", ".status.reason", "WaitingForUser");
    site.writer("one");
    site.reads("volume/data", ".status.state", "Ready");
    until("the program has read its line", || {
        site.run(&["logs", "writer"]).contains("one").then_some(())
    });
    // The host itself does not see the program's view.
    assert!(!site.home.path("seen/log").exists());
    let impact = site.run(&["get", "volume", "data", "-o", "jsonpath={.status.impact}"]);
    assert!(impact.contains("32Mi of data on host-1") && impact.contains("writer"), "{impact}");

    let grow = r#"{"spec":{"size":"48Mi","snapshots":[{"name":"monday"}]}}"#;
    let server = ["--server", &site.url, "--project", "shop"];
    let patch = |what: &str| {
        site.home.orrery(&[&["patch", "volume", "data", "-p", what], &server[..]].concat())
    };
    patch(grow).good();
    site.reads("volume/data", ".status.observed.sizeBytes", &(48 << 20).to_string());
    site.reads("volume/data", ".status.observed.snapshots[0].name", "monday");
    assert!(patch(r#"{"spec":{"size":"16Mi"}}"#).bad(1).contains("cannot shrink"));
    assert!(patch(r#"{"spec":{"size":"100"}}"#).bad(1).contains("512"));

    site.run(&["delete", "workload", "writer"]);
    site.until_detached();
    site.writer("two");
    site.until_logged("writer", &["one", "two"]);
    site.run(&["delete", "workload", "writer"]);

    site.apply(
        "
apiVersion: storage.orrery.dev/v1
kind: Volume
metadata: {name: copy, project: shop}
spec: {size: 48Mi, source: {volume: data, snapshot: monday}}
",
    );
    site.reads("volume/copy", ".status.state", "Ready");
    site.run(&["delete", "volume", "copy", "data"]);
}

/// A volume in containers of the real podman: written by one, read by the next, and by a process.
///
/// proves: VOL-08
/// proves: AGT-15
#[test]
fn a_container_finds_its_volume_again() {
    let site = Site::start();
    let podman = Podman::new(&site.home);
    let _controller = site.controller("host-1");
    let _agent = site.agent_with("host-1", &podman.env());
    site.apply(PROJECT);
    site.container("echo one >> /data/log; cat /data/log", false);
    site.until_logged("boxed", &["one"]);
    site.run(&["delete", "workload", "boxed"]);
    site.until_detached();

    site.container("touch /data/mine || echo refused; cat /data/log", true);
    site.until_logged("boxed", &["one", "refused"]);
    // A process beside it shares the mount of the node, and may write.
    site.writer("two");
    site.until_logged("writer", &["one", "two"]);
    site.run(&["delete", "workload", "boxed", "writer"]);
    site.until_detached();
    site.run(&["delete", "volume", "data"]);
}

/// proves: VOL-08
#[test]
fn a_volume_whose_host_is_away_is_deleted_when_people_say_so() {
    let site = Site::start();
    let mut controller = site.controller("host-1");
    site.apply(&PROJECT.replace("size: 32Mi", "size: 32Mi, placement: now"));
    site.reads("volume/data", ".status.state", "Ready");
    controller.kill();
    site.reads("storagecontroller/host-1", ".status.state", "Silent");
    site.reads("volume/data", ".status.reason", "HostAway");
    site.run(&["delete", "volume", "data", "--no-wait"]);
    site.reads("volume/data", ".status.state", "Deleting");
    let said = site.run(&["get", "volume", "data", "-o", "jsonpath={.status.message}"]);
    assert!(said.contains("32Mi stay on host-1") && said.contains("forget=true"), "{said}");
    site.run(&["annotate", "volume", "data", "storage.orrery.dev/forget=true"]);
    until("it is forgotten", || {
        site.run(&["get", "volumes", "-o", "name"]).trim().is_empty().then_some(())
    });
}

/// proves: VOL-08
#[test]
fn a_snapshot_outlives_its_volume_and_becomes_a_volume_again() {
    let site = Site::start();
    let _controller = site.controller("host-1");
    let _agent = site.agent("host-1");
    let snapshot = |name: &str, policy: &str| {
        format!(
            "
---
apiVersion: storage.orrery.dev/v1
kind: VolumeSnapshot
metadata: {{name: {name}, project: shop}}
spec: {{volume: data, deletionPolicy: {policy}}}
"
        )
    };
    site.apply(&(PROJECT.to_owned() + &snapshot("early", "delete")));
    site.reads("volumesnapshot/early", ".status.reason", "VolumeNotReady");
    site.writer("one");
    site.reads("volumesnapshot/early", ".status.state", "Ready");
    site.until_logged("writer", &["one"]);
    site.apply(&(snapshot("nightly", "delete") + &snapshot("archive", "keep")));
    site.reads("volumesnapshot/nightly", ".status.state", "Ready");
    site.reads("volumesnapshot/archive", ".status.size", "32Mi");
    until("the volume knows what it leaves behind", || {
        let impact = site.run(&["get", "volume", "data", "-o", "jsonpath={.status.impact}"]);
        impact.contains("keeps the volume snapshots archive, early, nightly").then_some(())
    });

    site.run(&["delete", "workload", "writer"]);
    site.run(&["delete", "volume", "data"]);
    site.reads("volumesnapshot/nightly", ".status.state", "Ready");
    site.apply(
        "
apiVersion: storage.orrery.dev/v1
kind: Volume
metadata: {name: data, project: shop}
spec: {size: 48Mi, source: {snapshot: nightly}}
",
    );
    site.writer("two");
    site.until_logged("writer", &["one", "two"]);

    let images = || {
        let names = std::fs::read_dir(site.home.path("host-1/images")).unwrap();
        let snapshot = |name: &String| name.ends_with(".snap");
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(snapshot).count()
    };
    assert_eq!(images(), 3);
    site.run(&["delete", "volumesnapshot", "early", "nightly", "archive"]);
    assert_eq!(images(), 1, "the one that is to be kept");
    let said = site.run(&["events"]);
    assert!(said.contains("deleted without its data: 32Mi stay on host-1"), "{said}");
    site.apply(&snapshot("lost", "delete").replace("volume: data", "volume: nobody"));
    site.reads("volumesnapshot/lost", ".status.reason", "NoVolume");
    site.run(&["delete", "volumesnapshot", "lost"]);
    site.run(&["delete", "workload", "writer"]);
    site.until_detached();
    site.run(&["delete", "volume", "data"]);
}

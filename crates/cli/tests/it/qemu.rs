//! A virtual machine, emulated: Debian's kernel with an initramfs that holds our agent. It joins and runs a
//! workload. Needs `qemu-system-x86_64`, busybox, and the kernel that `cargo xtask test` has unpacked.
mod disk;

use crate::harness::{Home, ORRERY, Process, until};
use orrery_testkit::modules::{in_order, name};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the kernel runs first. Drivers are modules, in the order of their dependencies.
const FIRST: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /data
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
for module in $(cat /modules/order); do
  insmod /modules/$module.ko
done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
"#;

/// Reads what it is to be from the words for the kernel and from the seed within its initramfs.
const INIT: &str = r#"
name=$(sed 's/.*orrery.machine=\([^ ]*\).*/\1/' /proc/cmdline)
server=$(sed 's/.*orrery.server=\([^ ]*\).*/\1/' /proc/cmdline)
cat /orrery/user-data
exec /orrery-agent agent --name $name --server $server --data-dir /data
"#;

const MODULES: &[&str] = &["virtio_pci", "virtio_net"];

fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Debian's kernel, unpacked and not installed.
fn unpacked() -> PathBuf {
    let tools = std::env::var_os("ORRERY_TOOLS").map(PathBuf::from);
    let tools = tools.unwrap_or_else(|| crate::harness::repository().join("target/tools"));
    tools.join("deb/linux-image-cloud-amd64")
}

/// What every machine needs, and more; what these need comes with them.
fn modules(more: &[&'static str]) -> Vec<&'static str> {
    MODULES.iter().chain(more).copied().collect()
}

/// An initramfs with busybox, the modules, and the agent with the libraries that it is linked to.
fn initramfs(home: &Home, kernel: &Path, modules: &[&str], init: &str) -> PathBuf {
    let tree = home.path("tree");
    for folder in ["bin", "modules"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).unwrap();
    fs::write(tree.join("init"), [FIRST, init].concat()).unwrap();
    fs::set_permissions(tree.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut order = String::new();
    for module in in_order(&kernel.join("lib/modules"), modules) {
        let name = name(&module);
        fs::copy(module, tree.join(format!("modules/{name}.ko"))).unwrap();
        order.push_str(&format!("{name} "));
    }
    fs::write(tree.join("modules/order"), order).unwrap();
    let (tree_text, archive) = (tree.display(), home.path("initramfs"));
    // Without its symbols the agent is a third of its size.
    sh(&format!("strip -o {tree_text}/orrery-agent {ORRERY}"));
    sh(&format!(
        "for l in $(ldd {ORRERY} | grep -o '/[^ ]*'); do mkdir -p {tree_text}$(dirname $l); cp -L $l {tree_text}$l; done"
    ));
    sh(&format!("cd {tree_text} && find . | busybox cpio -o -H newc > {}", archive.display()));
    archive
}

fn get(home: &Home, what: &str) -> Value {
    let found = home.orrery(&["get", what, "-p", "machines", "-o", "json"]).good();
    serde_json::from_str(&found).unwrap()
}

fn manifests(kernel: &Path, initramfs: &Path) -> String {
    let (kernel, initramfs) = (kernel.display(), initramfs.display());
    format!(
        r#"
apiVersion: core.orrery.dev/v1
kind: Project
metadata: {{name: machines}}
---
apiVersion: core.orrery.dev/v1
kind: Secret
metadata: {{name: seed, project: machines}}
spec: {{data: {{userData: c2VlZCBvZiAke29ycmVyeTptYWNoaW5lTmFtZX0K}}}}
---
apiVersion: infra.orrery.dev/v1
kind: MachineClass
metadata: {{name: tiny, project: machines}}
spec:
  provider: QemuMachine
  secret: seed
  providerSpec: {{kernel: {kernel}, initramfs: {initramfs}, memoryMib: 640, accelerator: tcg, powerDownSeconds: 1}}
---
apiVersion: infra.orrery.dev/v1
kind: Machine
metadata: {{name: vm, project: machines}}
spec: {{class: tiny}}
---
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata: {{name: inside, project: machines}}
spec:
  process: {{command: /bin/sh, args: [-c, "uname -n; sleep 1000"]}}
  placement: {{nodes: [vm]}}
"#
    )
}

/// Ends what a failed test leaves behind, by the number in the machine's own folder.
struct Emulators(PathBuf);

impl Drop for Emulators {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if let Ok(pid) = fs::read_to_string(entry.path().join("pid")) {
                let _ = Command::new("kill").args(["-9", pid.trim()]).status();
            }
        }
    }
}

fn driver(home: &Home, drivers: &str, server: &str) -> Process {
    let mut command = home.command(ORRERY);
    command.args(["driver", "qemu", "--server", drivers, "--agent-server", server, "--data-dir"]);
    Process(command.arg(home.path("vms")).stderr(Stdio::null()).spawn().unwrap())
}

/// What the machines have printed.
fn console(home: &Home) -> String {
    sh(&format!("cat {}/*/console 2>/dev/null || true", home.path("vms").display()))
}

/// The provider's id of the machine, when it and its workload run.
fn running(home: &Home) -> Option<Value> {
    let (machine, copies) = (get(home, "machine/vm"), get(home, "workloadinstances"));
    let running = machine["status"]["phase"] == "Running"
        && copies["items"][0]["status"]["state"] == "Running";
    running.then(|| machine["status"]["providerId"].clone())
}

/// proves: MCH-05, MCH-06
#[test]
fn a_virtual_machine_joins_runs_a_workload_is_found_again_and_goes() {
    let kernel = unpacked();
    let image = sh(&format!("ls {}/boot/vmlinuz-*", kernel.display()));
    let home = Home::new();
    let _emulators = Emulators(home.path("vms"));
    let up = home.up();
    let mut first = driver(&home, &up.drivers(), &up.server());
    let archive = initramfs(&home, &kernel, MODULES, INIT);
    let file = home.write("vm.yaml", manifests(Path::new(&image), &archive));
    home.orrery(&["apply", "-f", &file.display().to_string()]).good();
    let id = crate::harness::until_within(
        120,
        || running(&home),
        || {
            format!(
                "the machine joins; it is {}, its console says {}",
                get(&home, "machine/vm"),
                console(&home)
            )
        },
    );
    assert!(console(&home).contains("seed of vm"), "its seed is its own");

    // Another start of the driver finds it again, and nothing of it is made twice.
    first.kill();
    let _second = driver(&home, &up.drivers(), &up.server());
    until("the next driver is active", || {
        let drivers = get(&home, "drivers");
        let active = |it: &Value| it["status"]["state"] == "Active";
        drivers["items"].as_array().unwrap().iter().any(active).then_some(())
    });
    assert_eq!(running(&home), Some(id));
    home.orrery(&["delete", "machine", "vm", "-p", "machines"]).good();
    let left: Vec<_> =
        fs::read_dir(home.path("vms")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"], "nothing is left of it");
}

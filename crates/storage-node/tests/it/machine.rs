//! What these tests need of the machine.
use std::path::Path;

/// If this fails, so will most of the others, and this says why.
#[test]
fn this_machine_can_run_the_tests() {
    let missing: Vec<&str> = [
        (rustix_is_root(), "root: run the tests as root"),
        (Path::new("/dev/loop-control").exists(), "the loop driver (/dev/loop-control)"),
        (Path::new("/dev/shm").exists(), "a tmpfs at /dev/shm"),
        (program("mkfs.ext4"), "mkfs.ext4 (Debian: e2fsprogs)"),
        (program("resize2fs"), "resize2fs (Debian: e2fsprogs)"),
        (program("blkid"), "blkid (Debian: util-linux)"),
        (program("blockdev"), "blockdev (Debian: util-linux)"),
        (program("mount"), "mount (Debian: mount)"),
        (program("qemu-storage-daemon"), "qemu-storage-daemon (Debian: qemu-utils)"),
        (program("qemu-io"), "qemu-io (Debian: qemu-utils)"),
    ]
    .into_iter()
    .filter_map(|(there, what)| (!there).then_some(what))
    .collect();
    assert!(missing.is_empty(), "this machine lacks: {missing:#?}");
}

fn rustix_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn program(name: &str) -> bool {
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(name).exists())
}

/// Whether the kernel lets this process grow a mounted ext4; some sandboxes take that from root.
pub fn may_grow_mounted() -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let bits = text.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() >> 24 & 1 == 1
}

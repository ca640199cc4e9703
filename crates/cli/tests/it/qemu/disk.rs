//! A disk image that boots by itself: what is of one machine reaches it on the disk of its seed, as
//! cloud-init expects it (NoCloud: labelled CIDATA, with `meta-data` and `user-data`).
use super::{Emulators, console, driver, get, initramfs, modules, running, sh, unpacked};
use crate::harness::{Home, until_within};
use std::fs;
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;
/// Where the initramfs goes in memory: out of the way of the kernel, which unpacks itself below.
const INITRAMFS_AT: usize = 0x1000_0000;
/// Behind all that is read, for the machine to write to.
const SCRATCH_SECTORS: usize = 8;

const MODULES: &[&str] = &["virtio_blk", "vfat", "nls_cp437", "nls_ascii"];

/// Does what cloud-init would: finds its seed by the label, and runs the user data in it.
const INIT: &str = r#"
mkdir -p /seed
seed=$(findfs LABEL=CIDATA)
mount -t vfat -o ro $seed /seed && ls /seed && cat /seed/meta-data
name=$(sed -n 's/^local-hostname: //p' /seed/meta-data)
echo "written by $name" | dd of=/dev/vda bs=512 seek=$(($(cat /sys/block/vda/size) - 1)) conv=notrunc,fsync
exec /bin/sh /seed/user-data
"#;

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// An image with a boot sector, the kernel and the initramfs, one after the other.
fn image(home: &Home, kernel: &Path, initramfs: &Path) -> PathBuf {
    let (kernel, initramfs) = (fs::read(kernel).unwrap(), fs::read(initramfs).unwrap());
    let (bytes, initramfs) = (initramfs.len(), padded(initramfs));
    // Where the boot protocol says how long the first part is, the boot sector of old not counted.
    let setup = usize::from(kernel[0x1f1]) + 1;
    let kernel = padded(kernel);
    let symbols = [
        ("SETUP_SECTORS", setup),
        ("KERNEL_SECTORS", kernel.len() / SECTOR - setup),
        ("INITRAMFS_SECTOR", 1 + kernel.len() / SECTOR),
        ("INITRAMFS_SECTORS", initramfs.len() / SECTOR),
        ("INITRAMFS_BYTES", bytes),
        ("INITRAMFS_AT", INITRAMFS_AT),
    ];
    let symbols = symbols.map(|(name, value)| format!("--defsym {name}={value}")).join(" ");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/qemu/boot.s");
    let (object, sector) = (home.path("boot.o"), home.path("boot.bin"));
    let (object, to) = (object.display(), sector.display());
    sh(&format!("as --32 {symbols} -o {object} {source}"));
    sh(&format!("ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o {to} {object}"));
    let sector = fs::read(sector).unwrap();
    assert_eq!(sector.len(), SECTOR);
    let image = [sector, kernel, initramfs, vec![0; SCRATCH_SECTORS * SECTOR]].concat();
    home.write("image.raw", image)
}

fn manifests(image: &Path, server: &str) -> String {
    let image = image.display();
    let port = server.rsplit(':').next().unwrap();
    let script = format!(
        "#!/bin/sh\nexec /orrery-agent agent --name ${{orrery:machineName}} --server http://10.0.2.2:{port} --data-dir /data\n"
    );
    let user_data = sh(&format!("printf '%s' '{script}' | base64 -w0"));
    format!(
        r#"
apiVersion: core.orrery.dev/v1
kind: Project
metadata: {{name: machines}}
---
apiVersion: core.orrery.dev/v1
kind: Secret
metadata: {{name: seed, project: machines}}
spec: {{data: {{userData: {user_data}}}}}
---
apiVersion: infra.orrery.dev/v1
kind: MachineClass
metadata: {{name: tiny, project: machines}}
spec:
  provider: QemuMachine
  secret: seed
  providerSpec: {{disk: {image}, diskFormat: raw, memoryMib: 640, accelerator: tcg, powerDownSeconds: 1}}
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

/// proves: MCH-06
#[test]
fn a_disk_image_boots_finds_its_seed_joins_and_goes() {
    let kernel = unpacked();
    let file = sh(&format!("ls {}/boot/vmlinuz-*", kernel.display()));
    let home = Home::new();
    let _emulators = Emulators(home.path("vms"));
    let up = home.up();
    let _driver = driver(&home, &up.drivers(), &up.server());
    let archive = initramfs(&home, &kernel, &modules(MODULES), INIT);
    let image = image(&home, Path::new(&file), &archive);
    let digest = || sh(&format!("sha256sum < {}", image.display()));
    let before = digest();
    let manifests = home.write("vm.yaml", manifests(&image, &up.server()));
    home.orrery(&["apply", "-f", &manifests.display().to_string()]).good();
    until_within(
        120,
        || running(&home),
        || {
            let machine = get(&home, "machine/vm");
            format!("the machine joins; it is {machine}, its console says {}", console(&home))
        },
    );
    let said = console(&home);
    for part in ["user-data", "local-hostname: vm", "instance-id: "] {
        assert!(said.contains(part), "{part} is not on its seed: {said}");
    }
    assert_eq!(digest(), before, "what it writes goes to a layer of its own");
    let layer = sh(&format!("ls {}/*/disk.qcow2", home.path("vms").display()));
    sh(&format!("grep -a -q 'written by vm' {layer}"));
    home.orrery(&["delete", "machine", "vm", "-p", "machines"]).good();
    let left: Vec<_> =
        fs::read_dir(home.path("vms")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"], "nothing is left of it");
}

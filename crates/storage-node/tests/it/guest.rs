//! A virtual machine that gets its volumes by vhost-user-blk at the PCI address 0x15, while it runs.
use crate::qemu::{Daemon, name, request, volumes};
use orrery_storage_node::backend::qemu::{Export, Slot};
use orrery_storage_node::volume::Params;
use orrery_testkit::modules;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// Where the guest sees its device, and what its controller answers.
const DEVICE: &str = "/devices/pci0000:00/0000:00:15.0/";

/// Modules of Debian's kernel; what they need comes with them.
const MODULES: [&str; 2] = ["virtio_pci", "virtio_blk"];

/// Runs what the serial line says, and answers with a line of its own.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs none /dev; mount -t sysfs none /sys; mount -t proc none /proc
for module in $(cat /order); do insmod /modules/$module.ko; done
stty -echo -F /dev/ttyS0
exec < /dev/ttyS0 > /dev/ttyS0 2>&1
echo guest-ready
while read line; do eval \"$line\"; echo guest-done; done
";

fn tools() -> PathBuf {
    match std::env::var_os("ORRERY_TOOLS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"),
    }
}

/// The only entry of a folder whose name begins so.
fn entry(folder: &Path, beginning: &str) -> PathBuf {
    let mut found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let fits = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(beginning);
    found.find(fits).unwrap_or_else(|| panic!("{beginning}* in {}", folder.display()))
}

/// An initial file system of busybox and modules.
fn initrd(folder: &Path, package: &Path) -> PathBuf {
    let root = folder.join("root");
    for name in ["bin", "dev", "sys", "proc", "modules"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    let mut order = String::new();
    for module in modules::in_order(&package.join("lib/modules"), &MODULES) {
        let name = modules::name(&module);
        fs::copy(&module, root.join(format!("modules/{name}.ko"))).unwrap();
        order.push_str(&format!("{name}\n"));
    }
    fs::write(root.join("order"), order).unwrap();
    let init = root.join("init");
    fs::write(&init, INIT).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let packed = folder.join("initrd");
    let script = format!("find . | busybox cpio -o -H newc > {}", packed.display());
    let done = Command::new("sh").args(["-ec", &script]).current_dir(&root).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    packed
}

struct Guest {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    monitor: Monitor,
}

impl Drop for Guest {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Guest {
    fn boot(folder: &Path) -> Self {
        let package = tools().join("deb/linux-image-cloud-amd64");
        let kernel = entry(&package.join("boot"), "vmlinuz");
        let initrd = initrd(folder, &package);
        let socket = folder.join("guest.sock");
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "pc,accel=tcg,memory-backend=ram", "-m", "256", "-nodefaults"]);
        // The daemon reads and writes the guest's memory, so they share it.
        command.args(["-object", "memory-backend-memfd,id=ram,size=256M,share=on"]);
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", socket.display()));
        command.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
        command.args(["-append", "console=ttyS0 quiet tsc=reliable no_timer_check panic=-1"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut output = BufReader::new(output);
        read_until(&mut output, "guest-ready");
        Self { monitor: Monitor::connect(&socket), child, input, output }
    }

    /// What a command in the guest says.
    fn run(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.input.flush().unwrap();
        read_until(&mut self.output, "guest-done")
    }

    /// Runs it again and again until it says something with this in it.
    fn until(&mut self, command: &str, wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..600 {
            let said = self.run(command);
            if wanted(&said) {
                return said;
            }
            self.run("sleep 0.1");
        }
        panic!("the guest never answered {command} as it should");
    }

    fn plug(&mut self, socket: &Path) {
        let address = json!({"type": "unix", "data": {"path": socket}});
        let backend = json!({"type": "socket", "data": {"addr": address, "server": false}});
        self.monitor.call("chardev-add", json!({"id": "blk", "backend": backend}));
        let device = json!({"driver": "vhost-user-blk-pci", "id": "blk15", "chardev": "blk", "addr": "0x15"});
        self.monitor.call("device_add", device);
    }

    /// Waits for the node of the device, which comes a moment after its link in `/sys`. Writing to it
    /// before that would make a file of that name instead.
    fn until_node(&mut self) {
        self.until("test -b /dev/vda && echo it-is-there", |said| said.contains("it-is-there"));
    }

    fn unplug(&mut self) {
        self.monitor.call("device_del", json!({"id": "blk15"}));
        self.monitor.deleted("blk15");
        // The device is gone a moment before it lets go of its socket.
        for _ in 0..100 {
            match self.monitor.attempt("chardev-remove", &json!({"id": "blk"})) {
                Ok(()) => return,
                Err(error) => assert!(error.to_string().contains("busy"), "{error}"),
            }
            self.run("sleep 0.1");
        }
        panic!("the device never let go of its socket");
    }
}

/// Lines up to the one that has this in it.
fn read_until(output: &mut impl BufRead, end: &str) -> String {
    let mut said = String::new();
    loop {
        let start = said.len();
        assert_ne!(output.read_line(&mut said).unwrap(), 0, "the guest ended: {said}");
        if said[start..].contains(end) {
            return said[..start].to_owned();
        }
    }
}

/// QEMU's own monitor.
struct Monitor {
    stream: BufReader<UnixStream>,
    events: Vec<Value>,
}

impl Monitor {
    fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let mut monitor = Self { stream: BufReader::new(stream), events: Vec::new() };
        monitor.next();
        monitor.call("qmp_capabilities", json!({}));
        monitor
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, name: &str, arguments: Value) {
        self.attempt(name, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    fn attempt(&mut self, name: &str, arguments: &Value) -> Result<(), Value> {
        let call = json!({"execute": name, "arguments": arguments}).to_string();
        self.stream.get_mut().write_all(call.as_bytes()).unwrap();
        loop {
            let answer = self.next();
            if let Some(error) = answer.get("error") {
                return Err(error.clone());
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
            self.events.push(answer);
        }
    }

    /// Waits until a device is gone; its parts go before it, each with an event of its own.
    fn deleted(&mut self, device: &str) {
        let of_device =
            |event: &Value| event["event"] == "DEVICE_DELETED" && event["data"]["device"] == device;
        while !self.events.iter().any(of_device) {
            let event = self.next();
            self.events.push(event);
        }
        self.events.clear();
    }
}

/// proves: VOL-05
/// proves: VOL-06
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_mapped_while_a_guest_runs_appears_there_and_keeps_its_data() {
    let folder = TempDir::new().unwrap();
    let _daemon = Daemon::start(folder.path()).await;
    let slot = Slot { socket: folder.path().join("vhost15.sock"), device: DEVICE.to_owned() };
    let socket = slot.socket.clone();
    let export = Export::VhostUserBlk { slots: vec![slot] };
    let volumes = volumes(folder.path(), export).await;
    volumes.create(request("a", 8 << 20)).await.unwrap();
    let mut guest = tokio::task::block_in_place(|| Guest::boot(folder.path()));

    let links = "readlink /sys/dev/block/*";
    let mapping = volumes.map(&name("a"), Params::Provisioned).await.unwrap();
    assert_eq!(mapping.device, DEVICE);
    tokio::task::block_in_place(|| {
        assert!(!guest.run(links).contains(DEVICE), "nothing is there before");
        guest.plug(&socket);
        let found = guest.until(links, |said| said.contains(DEVICE));
        assert!(found.contains(&format!("{DEVICE}virtio")), "{found}");
        guest.until_node();
        guest.run("echo written-by-the-guest | dd of=/dev/vda bs=512 conv=sync,fsync 2>/dev/null");
        guest.unplug();
        guest.until(links, |said| !said.contains(DEVICE));
    });
    volumes.unmap(&name("a")).await.unwrap();
    let image = fs::read(folder.path().join("images/a.img")).unwrap();
    assert!(image.starts_with(b"written-by-the-guest"));

    volumes.map(&name("a"), Params::Provisioned).await.unwrap();
    tokio::task::block_in_place(|| {
        guest.plug(&socket);
        guest.until(links, |said| said.contains(DEVICE));
        guest.until_node();
        let read = guest.run("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
        assert!(read.contains("written-by-the-guest"), "{read}");
        guest.unplug();
    });
    volumes.unmap(&name("a")).await.unwrap();
}

//! One virtual machine: its files, its start, and whether it lives.
use super::PROGRAM;
use super::cpio;
use super::spec::{Accelerator, Spec};
use crate::{Error, ErrorCode};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

pub const MONITOR: &str = "qmp";
const PID: &str = "pid";
const DISK: &str = "disk.qcow2";
const SEED: &str = "seed";
const INITRAMFS: &str = "initramfs";
/// Longest path of a socket in Linux.
const SOCKET_BYTES_MAX: usize = 107;
/// Where the seed is in an initramfs.
const SEED_FOLDER: &str = "orrery";

pub struct Boot<'a> {
    pub folder: PathBuf,
    pub id: &'a str,
    pub name: &'a str,
    pub server: &'a str,
    pub spec: &'a Spec,
    pub user_data: &'a str,
    /// Empty where agents join without.
    pub join_token: String,
}

impl Boot<'_> {
    /// Makes the files that the machine starts from.
    pub async fn prepare(&self) -> Result<(), Error> {
        let socket = self.folder.join(MONITOR);
        if SOCKET_BYTES_MAX < socket.as_os_str().len() {
            let text =
                format!("{} is too long for a socket: use a shorter --data-dir", socket.display());
            return Err(Error::new(ErrorCode::FailedPrecondition, text));
        }
        let seed = self.folder.join(SEED);
        fs::create_dir_all(&seed).map_err(|error| failed("make", &seed, &error))?;
        for (name, content) in [("user-data", self.user_data), ("meta-data", &self.meta_data())] {
            let path = seed.join(name);
            fs::write(&path, content).map_err(|error| failed("write", &path, &error))?;
        }
        if let Some(initramfs) = &self.spec.initramfs {
            self.write_initramfs(initramfs)?;
        }
        match &self.spec.disk {
            Some(disk) => self.make_disk(disk).await,
            None => Ok(()),
        }
    }

    fn meta_data(&self) -> String {
        format!("instance-id: {}\nlocal-hostname: {}\n", self.id, self.name)
    }

    fn write_initramfs(&self, of_class: &Path) -> Result<(), Error> {
        let mut content = fs::read(of_class).map_err(|error| failed("read", of_class, &error))?;
        let meta_data = self.meta_data();
        let files = [
            ("user-data", self.user_data.as_bytes()),
            ("meta-data", meta_data.as_bytes()),
            ("join-token", self.join_token.as_bytes()),
        ];
        cpio::append(&mut content, SEED_FOLDER, &files);
        let path = self.folder.join(INITRAMFS);
        fs::write(&path, content).map_err(|error| failed("write", &path, &error))
    }

    /// A layer of its own over the image, unless an earlier attempt has made it.
    async fn make_disk(&self, image: &Path) -> Result<(), Error> {
        let path = self.folder.join(DISK);
        if path.exists() {
            return Ok(());
        }
        let mut make = Command::new("qemu-img");
        make.args(["create", "-q", "-f", "qcow2", "-F", &self.spec.disk_format, "-b"]);
        run(make.arg(image).arg(&path)).await
    }

    /// Starts it; when this returns without an error it runs, and belongs to nobody.
    pub async fn start(&self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for accelerator in self.accelerators() {
            let mut start = Command::new(PROGRAM);
            start.args(self.arguments(accelerator)).current_dir(&self.folder);
            outcome = run(&mut start).await;
            match &outcome {
                Ok(()) => return outcome,
                Err(error) => tracing::warn!(machine = self.name, accelerator, %error, "no start"),
            }
        }
        outcome
    }

    /// A machine may have KVM and not be able to use it: then emulation has to do.
    fn accelerators(&self) -> &'static [&'static str] {
        match self.spec.accelerator {
            Accelerator::Kvm => &["kvm"],
            Accelerator::Auto if Path::new("/dev/kvm").exists() => &["kvm", "tcg"],
            Accelerator::Auto | Accelerator::Tcg => &["tcg"],
        }
    }

    fn arguments(&self, accelerator: &str) -> Vec<OsString> {
        let spec = self.spec;
        let mut all: Vec<OsString> = vec!["-daemonize".into(), "-display".into(), "none".into()];
        let mut add = |option: &str, value: String| {
            all.extend([option.into(), value.into()]);
        };
        add("-name", process_name(self.id));
        add("-pidfile", PID.to_owned());
        add("-qmp", format!("unix:{MONITOR},server=on,wait=off"));
        add("-serial", "file:console".to_owned());
        add("-machine", "pc".to_owned());
        add("-accel", accelerator.to_owned());
        add("-cpu", "max".to_owned());
        add("-smp", spec.cpus.to_string());
        add("-m", format!("{}M", spec.memory_mib));
        add("-nic", format!("user,model={}", spec.nic));
        if let Some(kernel) = &spec.kernel {
            add("-kernel", kernel.display().to_string());
            add("-initrd", INITRAMFS.to_owned());
            add("-append", self.kernel_words());
        }
        if spec.disk.is_some() {
            add("-drive", format!("if=virtio,format=qcow2,file={DISK}"));
            // Read when the machine asks for it; by then the emulator has left this folder.
            let folder = self.folder.join(SEED).display().to_string().replace(',', ",,");
            let seed = format!("file.driver=vvfat,file.dir={folder},file.label=CIDATA");
            add("-drive", format!("if=virtio,format=raw,readonly=on,{seed}"));
        }
        all
    }

    /// Emulated clocks are slow to agree, and the kernel would wait for them.
    fn kernel_words(&self) -> String {
        let fixed = "console=ttyS0 tsc=reliable no_timer_check panic=-1";
        let (name, server, more) = (self.name, self.server, &self.spec.append);
        format!("{fixed} orrery.machine={name} orrery.server={server} {more}")
    }
}

fn process_name(id: &str) -> String {
    format!("orrery-{id}")
}

async fn run(command: &mut Command) -> Result<(), Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| Error::internal(format!("run {program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // What it refuses comes from the class.
    Err(Error::invalid(format!("{program}: {}", said.trim())))
}

/// The process of a machine, if it lives. A number that another process has by now is not it.
fn pid(folder: &Path, id: &str) -> Option<i32> {
    let pid = fs::read_to_string(folder.join(PID)).ok()?.trim().parse::<i32>().ok()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let name = process_name(id);
    line.split(|byte| *byte == 0).any(|word| word == name.as_bytes()).then_some(pid)
}

pub fn is_alive(folder: &Path, id: &str) -> bool {
    pid(folder, id).is_some()
}

pub fn kill(folder: &Path, id: &str) -> Result<(), Error> {
    let Some(pid) = pid(folder, id).and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
    match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::internal(format!("end virtual machine {id}: {error}"))),
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::internal(format!("{what} {}: {error}", path.display()))
}

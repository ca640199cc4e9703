//! A podman of the test's own, with one image that holds busybox and nothing else.
use crate::harness::Home;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The image, which is on no registry.
pub const IMAGE: &str = "localhost/box:1";

pub struct Podman {
    folder: PathBuf,
}

impl Podman {
    pub fn new(home: &Home) -> Self {
        let folder = home.path("podman");
        fs::create_dir_all(folder.join("root/bin")).unwrap();
        fs::write(folder.join("containers.conf"), containers_conf()).unwrap();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{0}/graph\"\nrunroot = \"{0}/run\"\n",
            folder.display()
        );
        fs::write(folder.join("storage.conf"), storage).unwrap();
        let this = Self { folder };
        this.import();
        this
    }

    fn import(&self) {
        let root = self.folder.join("root");
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "sleep", "cat", "touch"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        let tar = self.folder.join("root.tar");
        let packed =
            Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status();
        assert!(packed.unwrap().success());
        let said = self.run(&["import", &tar.display().to_string(), "box:1"]);
        assert!(said.0, "{}", said.1);
    }

    /// What makes podman the test's own.
    pub fn env(&self) -> [(String, String); 2] {
        let file = |name: &str| self.folder.join(name).display().to_string();
        [
            ("CONTAINERS_CONF".to_owned(), file("containers.conf")),
            ("CONTAINERS_STORAGE_CONF".to_owned(), file("storage.conf")),
        ]
    }

    /// Runs podman itself: whether it went well, and what it said.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut podman = Command::new("podman");
        let output = podman.args(arguments).envs(self.env()).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.run(&["rm", "--all", "--force", "--time", "0"]);
        self.run(&["image", "rm", "--all", "--force"]);
    }
}

/// What works without cgroups of version 2 and without the right to raise limits.
fn containers_conf() -> String {
    let unified = fs::exists("/sys/fs/cgroup/cgroup.controllers").unwrap_or(false);
    let runtime = if unified { "" } else { "runtime = \"runc\"\n" };
    format!(
        "[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=20000:20000\"]\n\
         [engine]\n{runtime}cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"
    )
}

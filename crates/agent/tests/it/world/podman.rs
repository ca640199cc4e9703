//! A podman of the test's own: its own storage, its own configuration, an image made on the spot.
use super::{KillableAgent, Server, World};
use orrery_proto::apps::v1::Podman;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Podman with one image, `box:1`, that holds busybox and nothing else.
pub struct Box1 {
    pub world: World,
    folder: PathBuf,
}

impl Box1 {
    pub fn new() -> Self {
        let world = World::new();
        let folder = world.path().join("podman");
        fs::create_dir_all(folder.join("root/bin")).unwrap();
        fs::write(folder.join("containers.conf"), containers_conf()).unwrap();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{0}/graph\"\nrunroot = \"{0}/run\"\n",
            folder.display()
        );
        fs::write(folder.join("storage.conf"), storage).unwrap();
        let this = Self { world, folder };
        this.import();
        this
    }

    fn import(&self) {
        let root = self.folder.join("root");
        let busybox = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap();
        let busybox = String::from_utf8(busybox.stdout).unwrap();
        fs::copy(busybox.trim(), root.join("bin/busybox")).unwrap();
        for applet in ["sh", "sleep", "cat", "echo", "stty"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\nweb:x:1234:1235::/:/bin/sh\n")
            .unwrap();
        fs::write(root.join("etc/group"), "root:x:0:\nweb:x:1235:\n").unwrap();
        let tar = self.folder.join("root.tar");
        let packed =
            Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status();
        assert!(packed.unwrap().success());
        let tar = tar.display().to_string();
        let said = self.podman(&["import", &tar, "box:1"]);
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
    pub fn podman(&self, args: &[&str]) -> (bool, String) {
        let output =
            Command::new("podman").args(args).envs(self.env()).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// The names of all containers there are, running or not.
    pub fn containers(&self) -> Vec<String> {
        let (_, text) = self.podman(&["ps", "--all", "--format", "{{.Names}}"]);
        text.lines().filter(|line| line.starts_with("orrery-")).map(str::to_owned).collect()
    }

    /// An agent in this process that starts podman's service itself.
    pub async fn agent(&self) -> (super::Agent, Server) {
        self.agent_in(self.world.run_dir()).await
    }

    /// The same with its socket in this folder.
    pub async fn agent_in(&self, run_dir: PathBuf) -> (super::Agent, Server) {
        let env = self.env();
        let nobody = self.world.path().join("nobody.sock");
        self.world
            .agent_with(|config| {
                config.podman.env = env.into();
                config.podman.socket = Some(nobody);
                config.run_dir = run_dir;
            })
            .await
    }

    pub async fn killable_agent(&self) -> (KillableAgent, Server) {
        let (agent, server) = KillableAgent::start_with(&self.world.data_dir(), &self.env());
        server.greet().await;
        (agent, server)
    }

    /// A shell in a container, without a network: that is quicker.
    pub fn shell(&self, text: &str) -> Podman {
        Podman {
            image: Some("localhost/box:1".into()),
            command: vec!["/bin/sh".into(), "-c".into()],
            args: vec![text.into()],
            network: Some("none".into()),
            pull: Some("never".into()),
            ..Podman::default()
        }
    }
}

impl Drop for Box1 {
    fn drop(&mut self) {
        self.podman(&["rm", "--all", "--force", "--time", "0"]);
        self.podman(&["image", "rm", "--all", "--force"]);
    }
}

/// What works without cgroups of version 2 and without the right to raise limits.
fn containers_conf() -> String {
    let unified = fs::exists("/sys/fs/cgroup/cgroup.controllers").unwrap_or(false);
    let runtime = if unified { "" } else { "runtime = \"runc\"\n" };
    format!(
        "[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=20000:20000\"]\n\
         [engine]\n{runtime}cgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n\
         [network]\nnetwork_backend = \"netavark\"\n"
    )
}

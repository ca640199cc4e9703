//! An ssh server of the test's own, on a port that the kernel picked, and keys made on the spot.
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Where the package puts it; a path is how it wants to be started.
const SSHD: &str = "/usr/sbin/sshd";

/// A pair of keys, as files and as text.
pub struct Key {
    pub path: PathBuf,
    pub private: String,
    pub public: String,
}

impl Key {
    pub fn make(folder: &Path, name: &str, passphrase: &str) -> Self {
        Self::make_with(folder, name, &["-t", "ed25519", "-N", passphrase])
    }

    pub fn make_with(folder: &Path, name: &str, how: &[&str]) -> Self {
        let path = folder.join(name);
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-C", name]).args(how).arg("-f").arg(&path).stdin(Stdio::null());
        assert!(made.status().unwrap().success());
        let public = path.with_extension("pub");
        let [private, public] = [&path, &public].map(|file| fs::read_to_string(file).unwrap());
        Self { path, private, public: public.trim().to_owned() }
    }
}

/// Takes connections itself, and hands each of them to an sshd that was started for it.
pub struct Sshd {
    pub folder: TempDir,
    pub port: u16,
    task: JoinHandle<()>,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sshd {
    /// Lets nobody in, yet.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Key::make(folder.path(), "host", "");
        let here = folder.path().display();
        let config = format!(
            "HostKey {here}/host\nAuthorizedKeysFile {here}/authorized\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        );
        fs::write(folder.path().join("config"), config).unwrap();
        fs::write(folder.path().join("authorized"), "").unwrap();
        // What its package leaves to the start of the machine. Who is not root needs none.
        let _ = fs::create_dir_all("/run/sshd");
        let task = tokio::spawn(serve(listener, folder.path().to_owned()));
        Self { folder, port, task }
    }

    /// Who may come in, and what for: lines as in a file of authorized keys.
    pub fn admit(&self, lines: &[&str]) {
        fs::write(self.folder.path().join("authorized"), lines.join("\n") + "\n").unwrap();
    }

    /// Another key of the host from now on.
    pub fn change_host_key(&self) {
        for name in ["host", "host.pub"] {
            fs::remove_file(self.folder.path().join(name)).unwrap();
        }
        Key::make(self.folder.path(), "host", "");
    }

    pub fn url(&self, path: &Path) -> String {
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap();
        format!("ssh://{}@127.0.0.1:{}{}", user.trim(), self.port, path.display())
    }

    /// The keys of the host, as people ask for them.
    pub async fn scan(&self) -> String {
        let mut scan = tokio::process::Command::new("ssh-keyscan");
        let port = self.port.to_string();
        let output = scan.args(["-T", "10", "-p", &port, "127.0.0.1"]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("ssh-ed25519"), "{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

async fn serve(listener: TcpListener, folder: PathBuf) {
    let mut serving = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        let log = fs::OpenOptions::new().append(true).create(true).open(folder.join("log"));
        let mut sshd = tokio::process::Command::new(SSHD);
        sshd.arg("-ief").arg(folder.join("config")).kill_on_drop(true);
        sshd.stdin(OwnedFd::from(stream.try_clone().unwrap())).stdout(OwnedFd::from(stream));
        serving.push(sshd.stderr(log.unwrap()).spawn().unwrap());
    }
}

/// A secret with these values.
pub fn secret(name: &str, values: &[(&str, &str)]) -> serde_json::Value {
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    serde_json::json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Secret",
        "metadata": {"name": name, "project": crate::support::PROJECT},
        "spec": {"stringData": values},
    })
}

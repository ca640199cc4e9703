//! Images of Ceph: how the daemon opens them, and what it means when it cannot.
use super::{Qemu, look::look};
use crate::{
    error::{Doing, Error, Result},
    volume::{CephImage, Size},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{io::AsyncReadExt, net::TcpStream};

/// Where a monitor of Ceph listens if the port is not said.
const PORT: &str = "6789";
/// A cluster that does not let a user in, or is not there, is given up after this many seconds. What
/// opens an image does nothing else meanwhile, so it must not be Ceph's own five minutes.
const PATIENCE_SECONDS: u32 = 10;
/// How the greeting of a monitor begins, in both versions of its protocol.
const GREETING: &[u8; 6] = b"ceph v";
/// What the driver says of a cluster that it cannot talk to.
const CONNECTING: &str = "error connecting";
const GREETING_WAIT: Duration = Duration::from_secs(2);

/// What daemons read instead of this host's configuration of Ceph, which may be for another cluster.
pub(super) struct Confs {
    /// For the daemon with all volumes. Reading and writing have no limit: a machine waits for its disk
    /// rather than being told that it is broken.
    pub serve: PathBuf,
    /// For one that only looks, and gives up the disks of a cluster as well as its monitors.
    pub look: PathBuf,
}

impl Confs {
    pub fn write(folder: &Path) -> Result<Self> {
        let (serve, look) = (folder.join("ceph.conf"), folder.join("ceph-look.conf"));
        let monitors = ["client_mount_timeout", "rados_mon_op_timeout"];
        for (path, more) in [(&serve, None), (&look, Some("rados_osd_op_timeout"))] {
            let limits = monitors.into_iter().chain(more);
            let limits: String =
                limits.map(|limit| format!("{limit} = {PATIENCE_SECONDS}\n")).collect();
            let text = format!("[global]\n{limits}");
            fs::write(path, text).doing(|| format!("write {}", path.display()))?;
        }
        Ok(Self { serve, look })
    }
}

/// How a node opens the image. A user without a key is one of a cluster that asks for none.
pub(super) fn driver(ceph: &CephImage, conf: &Path, key: Option<String>) -> Value {
    let server = |(host, port)| json!({ "host": host, "port": port });
    let server: Vec<Value> = ceph.monitors.split(',').map(monitor).map(server).collect();
    let mut driver = json!({
        "driver": "rbd",
        "conf": conf,
        "pool": ceph.pool,
        "image": ceph.image,
        "user": ceph.user,
        "auth-client-required": ["none"],
        "server": server,
    });
    if let Some(key) = key {
        driver["auth-client-required"] = json!(["cephx"]);
        driver["key-secret"] = json!(key);
    }
    driver
}

/// The object that a key is for a daemon, if there is a key: one of its own, so that no description of a
/// node has it.
pub(super) fn key(node: &str, ceph: &CephImage) -> Result<Option<Value>> {
    let key = ceph.secret.reveal();
    if key.is_empty() {
        return Ok(None);
    }
    // The daemon would repeat what it cannot read, and a key must not be in a message.
    if !is_base64(key) {
        return Err(Error::Invalid("ceph.secret is no key of Ceph: those are base64".into()));
    }
    // The format says how the key is written here; the daemon encodes it again for Ceph.
    let id = key_name(node);
    Ok(Some(json!({ "qom-type": "secret", "id": id, "data": key, "format": "base64" })))
}

impl Qemu {
    /// The driver's part of a node, after its key went to the daemon. A key that is there was left by an
    /// attempt with another one.
    pub(super) async fn rbd(&self, node: &str, ceph: &CephImage) -> Result<Value> {
        let key = key(node, ceph)?;
        let name = key.is_some().then(|| key_name(node));
        let driver = driver(ceph, &self.confs.serve, name);
        if let Some(key) = key {
            self.remove_key(node).await?;
            self.call("object-add", key).await?;
        }
        Ok(driver)
    }

    /// The size of an image, which is looked at beside the daemon.
    pub(super) async fn look_at_image(&self, ceph: &CephImage) -> Result<Size> {
        let Ok(_turn) = self.looking.acquire().await else {
            return Err(Error::Unavailable("the storage controller is stopping".to_owned()));
        };
        look(ceph, &self.confs.look).await
    }

    /// Refuses to go on with a cluster that is silent: closing an image waits for it too, and the daemon with all
    /// volumes would.
    pub(super) async fn answers(&self, ceph: &CephImage) -> Result<()> {
        match self.look_at_image(ceph).await {
            Err(error @ Error::Deadline(_)) => Err(error),
            // Whatever else is wrong with the image, somebody said so.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub(super) async fn remove_key(&self, node: &str) -> Result<()> {
        let id = key_name(node);
        if self.has_object(&id).await? {
            self.call("object-del", json!({ "id": id })).await?;
        }
        Ok(())
    }

    async fn has_object(&self, id: &str) -> Result<bool> {
        let objects = match self.call("qom-list", json!({ "path": "/objects" })).await {
            // Before QEMU 8 there is no such folder as long as there are no objects.
            Err(Error::NotFound { .. }) => return Ok(false),
            objects => objects?,
        };
        let named = |found: &Value| found["name"] == id;
        Ok(objects.as_array().is_some_and(|objects| objects.iter().any(named)))
    }
}

pub(super) fn key_name(node: &str) -> String {
    format!("{node}-key")
}

/// What it means that the daemon cannot open an image. A user with a wrong key and a cluster that is
/// not there look the same to it: Ceph tries again until its time is over. So in that case the
/// monitors are asked whether they are there.
pub async fn explained(ceph: &CephImage, error: Error) -> Error {
    let connecting = error.to_string().contains(CONNECTING);
    match meaning(ceph, error) {
        Error::Deadline(_) if connecting && somebody_answers(&ceph.monitors).await => denied(ceph),
        other => other,
    }
}

/// Every daemon of Ceph greets whoever connects, before it wants to know who that is.
async fn somebody_answers(monitors: &str) -> bool {
    for (host, port) in monitors.split(',').map(monitor) {
        let greeted = async {
            let mut stream = TcpStream::connect(format!("{}:{port}", bracketed(host))).await?;
            let mut greeting = [0; GREETING.len()];
            stream.read_exact(&mut greeting).await?;
            Ok::<_, std::io::Error>(greeting == *GREETING)
        };
        if let Ok(Ok(true)) = tokio::time::timeout(GREETING_WAIT, greeted).await {
            return true;
        }
    }
    false
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn denied(ceph: &CephImage) -> Error {
    let CephImage { user, monitors, pool, image, .. } = ceph;
    Error::Denied(format!(
        "Ceph at {monitors} does not let client.{user} use {pool}/{image}: check its key, and its \
         rights with ceph auth get client.{user}"
    ))
}

/// The same from the words of the error alone. The daemon has one class for all errors; what
/// tells them apart is which of Ceph's calls failed and the system's words for its number, which are
/// C's own, since the daemon sets no language.
fn meaning(ceph: &CephImage, error: Error) -> Error {
    let Error::Io { source, .. } = &error else { return error };
    let said = source.to_string();
    let CephImage { user, monitors, pool, image, .. } = ceph;
    let missing = said.ends_with("No such file or directory");
    let refused = ["Permission denied", "Operation not permitted"].map(|end| said.ends_with(end));
    if missing && said.contains("error opening pool") {
        return Error::Missing(format!(
            "Ceph at {monitors} has no pool {pool}: make it, or name the one that has {image}"
        ));
    }
    if missing && said.contains("error reading header") {
        return Error::Missing(format!(
            "the pool {pool} of Ceph at {monitors} has no image {image}: make it with rbd create \
             {pool}/{image}, or name another"
        ));
    }
    if refused.contains(&true) {
        return denied(ceph);
    }
    if said.contains(CONNECTING) {
        return Error::Deadline(format!(
            "no monitor of Ceph at {monitors} answered client.{user} within {PATIENCE_SECONDS} s: \
             check their addresses, and that they run"
        ));
    }
    if said.ends_with("Connection timed out") {
        return Error::Deadline(format!(
            "the monitors of Ceph at {monitors} answer, and its disks did not within {PATIENCE_SECONDS} s when \
             {pool}/{image} was opened: see what ceph health says"
        ));
    }
    if said.contains("rbd") && (said.contains("nknown driver") || said.contains("not accept value"))
    {
        let message = "qemu-storage-daemon has no driver for Ceph (Debian: qemu-block-extra)";
        return Error::Unsupported(message.to_owned());
    }
    error
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(digit)
}

/// Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn monitor(text: &str) -> (&str, &str) {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    (host, port.unwrap_or(PORT))
}

#[cfg(test)]
mod tests {
    use super::{is_base64, meaning, monitor};
    use crate::{
        error::Error,
        volume::{CephImage, Secret},
    };
    use tonic::Code;

    #[test]
    fn monitors_fit_the_daemon() {
        assert_eq!(monitor("mon-1"), ("mon-1", "6789"));
        assert_eq!(monitor("mon-1:3300"), ("mon-1", "3300"));
        assert_eq!(monitor("[::1]:3300"), ("::1", "3300"));
    }

    #[test]
    fn keys_are_base64() {
        for good in ["AQBh2/lqzc5wBRAALP+Y87yHt9E9cvLF1b4Jkg==", "AAA=", "AAAA"] {
            assert!(is_base64(good), "{good}");
        }
        for bad in ["A", "AAA", "A===", "hunter2", "AA=A", "AA A", "AAA\n"] {
            assert!(!is_base64(bad), "{bad:?}");
        }
    }

    #[track_caller]
    fn check(said: &str, expect: Code, with: &[&str]) {
        let ceph = CephImage {
            user: "orrery".into(),
            secret: Secret::new("hunter2"),
            monitors: "mon-1:6789".into(),
            pool: "fast".into(),
            image: "disk".into(),
        };
        let error = Error::io("use it", std::io::Error::other(format!("blockdev-add: {said}")));
        let found = meaning(&ceph, error);
        let text = found.to_string();
        assert_eq!(found.code(), expect, "{said}");
        assert!(with.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("hunter2"));
    }

    /// proves: VOL-07
    #[test]
    fn what_is_wrong_with_an_image_is_told_apart() {
        let gone = "No such file or directory";
        let all = ["fast", "disk", "mon-1"];
        check(&format!("error reading header from disk: {gone}"), Code::NotFound, &all);
        check(&format!("error opening pool fast: {gone}"), Code::NotFound, &all);
        let user = ["client.orrery", "mon-1"];
        check("error connecting: Permission denied", Code::PermissionDenied, &user);
        let header = "error reading header from disk: Operation not permitted";
        check(header, Code::PermissionDenied, &user);
        check("error connecting: Connection timed out", Code::DeadlineExceeded, &user);
        let header = "error reading header from disk: Connection timed out";
        check(header, Code::DeadlineExceeded, &["disks", "fast/disk", "ceph health"]);
        check("Unknown driver 'rbd'", Code::FailedPrecondition, &["qemu-block-extra"]);
        check("no space for a node", Code::Internal, &["no space"]);
    }
}

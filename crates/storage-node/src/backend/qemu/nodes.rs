//! Block nodes: the daemon's view of an image.
use super::Qemu;
use crate::{
    backend::{Target, image},
    error::{Doing, Error, Result, blocking},
    volume::{CephImage, Media, Size, VolumeName},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// QEMU's limit for the name of a node is 31 bytes, and names of volumes may be longer.
const HASH_BYTES: usize = 12;
/// Where a monitor of Ceph listens if the port is not said.
const CEPH_PORT: &str = "6789";
/// A cluster that does not let a user in, or is not there, is given up after this many seconds. The
/// daemon does nothing else meanwhile, so it must not be Ceph's own five minutes.
const CEPH_PATIENCE_SECONDS: u32 = 10;
/// What the daemon reads instead of this host's configuration of Ceph, which may be for another cluster.
const CEPH_CONF: &str = "ceph.conf";
const JOB_POLL: Duration = Duration::from_millis(20);

/// The name of the node, and the first part of that of the export.
pub fn node_name(name: &VolumeName) -> String {
    let digest = Sha256::digest(name.as_str());
    let hex: String = digest[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v{hex}")
}

/// The node and the job of a copy.
fn copy_name(name: &VolumeName) -> String {
    format!("{}-copy", node_name(name))
}

fn secret_name(name: &VolumeName) -> String {
    format!("{}-key", node_name(name))
}

impl Qemu {
    async fn has_node(&self, node: &str) -> Result<bool> {
        let nodes = self.call("query-named-block-nodes", json!({ "flat": true })).await?;
        let named = |found: &Value| found["node-name"] == node;
        Ok(nodes.as_array().is_some_and(|nodes| nodes.iter().any(named)))
    }

    /// Adds the node of a volume; one that is there is taken as it is, since its name is the volume's.
    pub(super) async fn add_node(&self, name: &VolumeName, target: &Target) -> Result<()> {
        let node = node_name(name);
        if self.has_node(&node).await? {
            return Ok(());
        }
        let file = match target {
            Target::Image(image) => {
                let path = self.files.path(image);
                if image::size_of(&path)?.is_none() {
                    return Err(Error::not_found("image", name.as_str()));
                }
                json!({ "driver": "file", "filename": path, "discard": "unmap" })
            }
            Target::Ceph(ceph) => self.rbd(name, ceph).await?,
        };
        let arguments =
            json!({ "driver": "raw", "node-name": node, "discard": "unmap", "file": file });
        self.call("blockdev-add", arguments).await.map(|_| ())
    }

    /// The key goes to the daemon as an object of its own, so that no description of a node has it.
    /// A user without a key is one of a cluster that asks for none.
    async fn rbd(&self, name: &VolumeName, ceph: &CephImage) -> Result<Value> {
        let server: Vec<Value> = ceph.monitors.split(',').map(monitor).collect();
        let mut node = json!({
            "driver": "rbd",
            "conf": self.ceph_conf()?,
            "pool": ceph.pool,
            "image": ceph.image,
            "user": ceph.user,
            "auth-client-required": ["none"],
            "server": server,
        });
        let key = ceph.secret.reveal();
        if !key.is_empty() {
            node["auth-client-required"] = json!(["cephx"]);
            node["key-secret"] = json!(self.add_key(name, key).await?);
        }
        Ok(node)
    }

    fn ceph_conf(&self) -> Result<PathBuf> {
        let path = self.files.folder(Media::File).join(CEPH_CONF);
        let limits = ["client_mount_timeout", "rados_mon_op_timeout"];
        let limits = limits.map(|limit| format!("{limit} = {CEPH_PATIENCE_SECONDS}\n"));
        let text = format!("[global]\n{}", limits.concat());
        fs::write(&path, text).doing(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Returns the name of the object. One that is there was left by an attempt with another key.
    async fn add_key(&self, name: &VolumeName, key: &str) -> Result<String> {
        // The daemon would repeat what it cannot read, and a key must not be in a message.
        if !is_base64(key) {
            return Err(Error::Invalid("ceph.secret is no key of Ceph: those are base64".into()));
        }
        let secret = secret_name(name);
        if self.has_object(&secret).await? {
            self.call("object-del", json!({ "id": secret })).await?;
        }
        // The format says how the key is written here; the daemon encodes it again for Ceph.
        let arguments =
            json!({ "qom-type": "secret", "id": secret, "data": key, "format": "base64" });
        self.call("object-add", arguments).await?;
        Ok(secret)
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

    pub(super) async fn remove_node(&self, name: &VolumeName) -> Result<()> {
        let (node, secret) = (node_name(name), secret_name(name));
        if self.has_node(&node).await? {
            self.call("blockdev-del", json!({ "node-name": node })).await?;
        }
        if self.has_object(&secret).await? {
            self.call("object-del", json!({ "id": secret })).await?;
        }
        Ok(())
    }

    /// Copies a volume that is exported, as it is now: the daemon keeps what is overwritten meanwhile.
    pub(super) async fn back_up(&self, from: &VolumeName, path: &Path, size: Size) -> Result<()> {
        if let Some(existing) = image::size_of(path)? {
            let message = || format!("{} exists with {existing}", path.display());
            return if existing == size { Ok(()) } else { Err(Error::Conflict(message())) };
        }
        let partial = path.with_added_extension(image::PARTIAL);
        let (made, target) = (partial.clone(), copy_name(from));
        // The daemon copies between nodes of one size; it grows afterwards.
        let source = self.node_size(&node_name(from)).await?;
        blocking(move || image::create(&made, source, None)).await?;
        let copied = self.copy_node(from, &target, &partial).await;
        let (path, done) = (path.to_owned(), partial.clone());
        let copied = match copied {
            Ok(()) => {
                blocking(move || {
                    image::grow(&done, size)?;
                    fs::rename(&done, &path).map_err(|error| Error::io("name a copy", error))
                })
                .await
            }
            Err(error) => Err(error),
        };
        if copied.is_err() {
            // Best effort: it is deleted at the next start at the latest.
            let _ = fs::remove_file(&partial);
        }
        copied
    }

    async fn node_size(&self, node: &str) -> Result<Size> {
        let nodes = self.call("query-named-block-nodes", json!({ "flat": true })).await?;
        let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
        let found = nodes.iter().find(|found| found["node-name"] == node);
        let bytes = found.and_then(|found| found["image"]["virtual-size"].as_u64());
        Size::try_from(bytes.ok_or_else(|| Error::not_found("block node", node))?)
    }

    /// Ends a copy that was going on when the controller died.
    pub(super) async fn end_copy(&self, from: &VolumeName) -> Result<()> {
        let target = copy_name(from);
        if self.job(&target).await?.is_some() {
            // It may have ended by itself meanwhile; what counts is that it concludes.
            let _ = self.call("job-cancel", json!({ "id": target })).await;
            let _ = self.finish_job(&target).await;
        }
        if self.has_node(&target).await? {
            self.call("blockdev-del", json!({ "node-name": target })).await?;
        }
        Ok(())
    }

    async fn copy_node(&self, from: &VolumeName, target: &str, path: &Path) -> Result<()> {
        self.end_copy(from).await?;
        let file = json!({ "driver": "file", "filename": path, "discard": "unmap" });
        let node =
            json!({ "driver": "raw", "node-name": target, "discard": "unmap", "file": file });
        self.call("blockdev-add", node).await?;
        let copied = self.run_backup(&node_name(from), target).await;
        let removed = self.call("blockdev-del", json!({ "node-name": target })).await;
        copied.and(removed.map(|_| ()))
    }

    async fn run_backup(&self, device: &str, target: &str) -> Result<()> {
        let arguments = json!({
            "job-id": target,
            "device": device,
            "target": target,
            "sync": "full",
            "auto-dismiss": false,
        });
        self.call("blockdev-backup", arguments).await?;
        self.finish_job(target).await
    }

    async fn job(&self, id: &str) -> Result<Option<Value>> {
        let jobs = self.call("query-jobs", json!({})).await?;
        let jobs = jobs.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(jobs.iter().find(|job| job["id"] == id).cloned())
    }

    /// Waits for the end of a job, and reports how it went.
    async fn finish_job(&self, id: &str) -> Result<()> {
        loop {
            let job = self.job(id).await?;
            let job = job.ok_or_else(|| Error::Lost("the daemon lost a copy".to_owned()))?;
            if job["status"] == "concluded" {
                self.call("job-dismiss", json!({ "id": id })).await?;
                return job["error"].as_str().map_or(Ok(()), |error| {
                    Err(Error::io("copy a volume", std::io::Error::other(error.to_owned())))
                });
            }
            tokio::time::sleep(JOB_POLL).await;
        }
    }
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(digit)
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`, as the daemon wants it.
fn monitor(text: &str) -> Value {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    json!({ "host": host, "port": port.unwrap_or(CEPH_PORT) })
}

#[cfg(test)]
mod tests {
    use super::{is_base64, monitor, node_name};
    use crate::volume::VolumeName;
    use serde_json::json;

    #[test]
    fn names_and_monitors_fit_the_daemon() {
        let name = node_name(&VolumeName::parse(&"x".repeat(63)).unwrap());
        assert!(name.len() + "-copy".len() <= 31, "{name}");
        assert_eq!(monitor("mon-1"), json!({ "host": "mon-1", "port": "6789" }));
        assert_eq!(monitor("mon-1:3300"), json!({ "host": "mon-1", "port": "3300" }));
        assert_eq!(monitor("[::1]:3300"), json!({ "host": "::1", "port": "3300" }));
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
}

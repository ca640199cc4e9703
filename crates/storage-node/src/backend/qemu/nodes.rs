//! Block nodes: the daemon's view of an image.
use super::{Qemu, ceph};
use crate::{
    backend::{Image, Target, image},
    error::{Error, Result, blocking},
    volume::{Size, VolumeName},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fs, path::Path, time::Duration};

/// QEMU's limit for the name of a node is 31 bytes, and names of volumes may be longer.
const HASH_BYTES: usize = 12;
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

/// How large a node is, among the answer to `query-named-block-nodes`.
pub fn virtual_size(nodes: &Value, node: &str) -> Result<Size> {
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    let found = nodes.iter().find(|found| found["node-name"] == node);
    let bytes = found.and_then(|found| found["image"]["virtual-size"].as_u64());
    Size::try_from(bytes.ok_or_else(|| Error::not_found("block node", node))?)
}

impl Qemu {
    /// Asks for what the daemon has counted. What describes nodes would read the images of Ceph among them, and
    /// wait for as long as one of their clusters is silent.
    pub(super) async fn has_node(&self, node: &str) -> Result<bool> {
        let nodes = self.call("query-blockstats", json!({ "query-nodes": true })).await?;
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
            Target::Ceph(ceph) => {
                // A daemon that waits for Ceph has no time for other volumes, so it is asked to open only
                // what another process could open just now.
                self.look_at_image(ceph).await?;
                self.rbd(&node, ceph).await?
            }
        };
        let arguments =
            json!({ "driver": "raw", "node-name": node, "discard": "unmap", "file": file });
        match (self.call("blockdev-add", arguments).await, target) {
            (Ok(_), _) => Ok(()),
            (Err(error), Target::Image(_)) => Err(error),
            (Err(error), Target::Ceph(ceph)) => Err(ceph::explained(ceph, error).await),
        }
    }

    /// Removes a node and the key that it was opened with.
    pub(super) async fn remove_node(&self, name: &VolumeName) -> Result<()> {
        let node = node_name(name);
        if self.has_node(&node).await? {
            self.call("blockdev-del", json!({ "node-name": node })).await?;
        }
        self.remove_key(&node).await
    }

    /// Copies a volume that is exported, as it is now: the daemon keeps what is overwritten meanwhile.
    pub(super) async fn back_up(&self, from: &Image, path: &Path, size: Size) -> Result<()> {
        if let Some(existing) = image::size_of(path)? {
            let message = || format!("{} exists with {existing}", path.display());
            return if existing == size { Ok(()) } else { Err(Error::Conflict(message())) };
        }
        let partial = path.with_added_extension(image::PARTIAL);
        let (made, target) = (partial.clone(), copy_name(&from.name));
        // The daemon copies between nodes of one size; it grows afterwards.
        let source = image::size_of(&self.files.path(from))?;
        let source = source.ok_or_else(|| Error::not_found("image", from.name.as_str()))?;
        blocking(move || image::create(&made, source, None)).await?;
        let copied = self.copy_node(&from.name, &target, &partial).await;
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

#[cfg(test)]
mod tests {
    use super::node_name;
    use crate::volume::VolumeName;

    #[test]
    fn names_fit_the_daemon() {
        let name = node_name(&VolumeName::parse(&"x".repeat(63)).unwrap());
        assert!(name.len() + "-copy".len() <= 31, "{name}");
    }
}

//! Exports: what machines and NBD clients connect to.
use super::{Export, Qemu, Slot, nodes::node_name};
use crate::{
    error::{Doing, Error, Result},
    volume::{Mapping, VolumeName},
};
use serde_json::{Value, json};
use std::{fs, io::ErrorKind, path::Path, time::Duration};
use tokio::net::UnixStream;

const NBD: &str = "nbd";
/// An export is gone once its last request is done.
const REMOVE_WAIT: Duration = Duration::from_secs(10);
const REMOVE_POLL: Duration = Duration::from_millis(20);

impl Qemu {
    /// The names of all exports, those on their way out included.
    pub(super) async fn exports(&self) -> Result<Vec<String>> {
        let exports = self.call("query-block-exports", json!({})).await?;
        let exports = exports.as_array().map(Vec::as_slice).unwrap_or_default();
        let id = |export: &Value| export["id"].as_str().map(str::to_owned);
        Ok(exports.iter().filter_map(id).collect())
    }

    /// The name of a volume's export, if it has one.
    pub(super) async fn exported(&self, name: &VolumeName) -> Result<Option<String>> {
        let prefix = format!("{}.", node_name(name));
        Ok(self.exports().await?.into_iter().find(|id| id.starts_with(&prefix)))
    }

    /// Where the export of a volume leads to.
    pub(super) fn mapping(&self, name: &VolumeName, export: &str) -> Result<Mapping> {
        let device = match &self.export {
            Export::Nbd { socket } => uri(name, socket),
            Export::VhostUserBlk { slots } => {
                let slot = slot_number(export).and_then(|number| slots.get(number));
                let slot = slot.ok_or_else(|| {
                    Error::Conflict(format!("{name} is exported in another way, as {export}"))
                })?;
                slot.device.clone()
            }
        };
        Ok(Mapping { device, scsi: String::new() })
    }

    pub(super) async fn add_export(&self, name: &VolumeName) -> Result<Mapping> {
        let node = node_name(name);
        let _one_at_a_time = self.exporting.lock().await;
        let (id, mut arguments) = match &self.export {
            Export::Nbd { socket } => {
                self.ensure_nbd_server(socket).await?;
                let id = format!("{node}.{NBD}");
                (id, json!({ "type": "nbd", "name": name.as_str() }))
            }
            Export::VhostUserBlk { slots } => {
                let (number, slot) = free_slot(slots, &self.exports().await?)?;
                remove_socket(&slot.socket)?;
                let address = json!({ "type": "unix", "path": slot.socket });
                let id = format!("{node}.{number}");
                (id, json!({ "type": "vhost-user-blk", "addr": address }))
            }
        };
        arguments["id"] = json!(id);
        arguments["node-name"] = json!(node);
        arguments["writable"] = json!(true);
        self.call("block-export-add", arguments).await?;
        self.mapping(name, &id)
    }

    /// There is no way to ask for the server but to connect to it.
    async fn ensure_nbd_server(&self, socket: &Path) -> Result<()> {
        if UnixStream::connect(socket).await.is_ok() {
            return Ok(());
        }
        remove_socket(socket)?;
        let address = json!({ "type": "unix", "data": { "path": socket } });
        self.call("nbd-server-start", json!({ "addr": address })).await.map(|_| ())
    }

    pub(super) async fn remove_export(&self, name: &VolumeName, export: &str) -> Result<()> {
        let deleted = self.call("block-export-del", json!({ "id": export })).await;
        let gone = async {
            while self.exports().await?.iter().any(|id| id == export) {
                tokio::time::sleep(REMOVE_POLL).await;
            }
            Ok(())
        };
        let in_use = |reason: &str| Error::InUse(format!("the volume {name} is in use: {reason}"));
        match deleted {
            Ok(_) => tokio::time::timeout(REMOVE_WAIT, gone)
                .await
                .unwrap_or_else(|_| Err(in_use("its export does not end"))),
            Err(error @ Error::Unavailable(_)) => Err(error),
            // The reason is not in the class of the error, so the state tells.
            Err(error) if self.exported(name).await?.is_some() => Err(in_use(&error.to_string())),
            Err(_) => Ok(()),
        }
    }
}

/// How a client of the NBD server names a volume.
fn uri(name: &VolumeName, socket: &Path) -> String {
    format!("nbd+unix:///{name}?socket={}", socket.display())
}

fn slot_number(export: &str) -> Option<usize> {
    export.rsplit_once('.')?.1.parse().ok()
}

fn free_slot<'a>(slots: &'a [Slot], exports: &[String]) -> Result<(usize, &'a Slot)> {
    let taken = |number: &usize| exports.iter().any(|id| slot_number(id) == Some(*number));
    let free = slots.iter().enumerate().find(|(number, _)| !taken(number));
    free.ok_or_else(|| {
        Error::Exhausted(format!("all {} slots of the machine are in use", slots.len()))
    })
}

/// A socket file that a daemon left behind keeps the next one from listening there.
fn remove_socket(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.doing(|| format!("remove {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::{Slot, free_slot};

    #[test]
    fn slots_are_taken_in_order_and_run_out() {
        let slot = |device: &str| Slot { socket: "/s".into(), device: device.into() };
        let slots = [slot("a"), slot("b")];
        let free = |exports: &[&str]| {
            let exports: Vec<String> = exports.iter().map(|id| (*id).to_owned()).collect();
            free_slot(&slots, &exports).map(|(number, _)| number).ok()
        };
        assert_eq!(free(&[]), Some(0));
        assert_eq!(free(&["v1.0", "v2.nbd"]), Some(1));
        assert_eq!(free(&["v1.1"]), Some(0));
        assert_eq!(free(&["v1.1", "v2.0"]), None);
    }
}

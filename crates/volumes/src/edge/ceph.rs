//! Volumes that are images of Ceph: with which key they are opened, and what their cluster says.
use super::Problem;
use super::hosts::Host;
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::core::v1::Secret;
use orrery_proto::oim::v0::CephParams;
use orrery_proto::storage::v1::{CephImage, Volume};
use orrery_proto::volumes::v1::CheckCephRequest;
use std::time::Duration;
use tonic::{Code, Status};

/// An image that could not be opened is tried again after this. Not sooner: SPDK does nothing else while a
/// cluster does not answer, and for `qemu-storage-daemon` each attempt is a process.
pub const RETRY: Duration = Duration::from_secs(60);
/// The value of a secret that is the key.
const KEY: &str = "key";

/// The image that a volume stands for, if it is one.
pub fn image(volume: &Volume) -> Option<&CephImage> {
    volume.spec.as_ref()?.ceph.as_ref()
}

/// Reads the keys of users of Ceph.
pub struct Keys {
    secrets: Resources<Secret>,
}

impl Keys {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self { secrets: hub.resources()? })
    }

    /// All that a storage controller needs to open an image.
    pub async fn params(&self, project: &str, ceph: &CephImage) -> Result<CephParams, Problem> {
        let secret = match &ceph.secret {
            Some(name) => self.key(project, name, ceph.user()).await?,
            None => String::new(),
        };
        Ok(CephParams {
            secret,
            user_id: ceph.user().to_owned(),
            monitors: ceph.monitors.join(","),
            pool: ceph.pool().to_owned(),
            image: ceph.image().to_owned(),
        })
    }

    async fn key(&self, project: &str, name: &str, user: &str) -> Result<String, Problem> {
        let missing = |message: String| Problem { reason: "SecretMissing", message };
        let found = self.secrets.find_readable(&ObjectName::new(project, name)).await;
        let found = found.map_err(|error| missing(format!("cannot read a secret: {error}")))?;
        let secret = found.ok_or_else(|| {
            missing(format!(
                "there is no secret {name}: make one whose value {KEY:?} is the key of client.{user}"
            ))
        })?;
        key_of(secret, name, user).map_err(missing)
    }
}

fn key_of(secret: Secret, name: &str, user: &str) -> Result<String, String> {
    let mut data = secret.spec.unwrap_or_default().data;
    let value = data.remove(KEY).ok_or_else(|| {
        format!("the secret {name} has no value {KEY:?}, which is to be the key of client.{user}")
    })?;
    // What `ceph auth get-key` prints may end with a newline.
    let text = String::from_utf8(value).map(|text| text.trim().to_owned());
    text.map_err(|_| format!("the value {KEY:?} of the secret {name} is no text"))
}

/// Asks a controller how large an image is.
pub async fn look(host: &mut Host, params: CephParams) -> Result<i64, Problem> {
    let CephParams { secret, user_id: user, monitors, pool, image } = params;
    let request = CheckCephRequest { secret, user, monitors, pool, image };
    match host.pool.check_ceph(request).await {
        Ok(found) => Ok(found.into_inner().size_bytes),
        Err(status) if status.code() == Code::FailedPrecondition => {
            Err(Problem { reason: "NoCeph", message: status.message().to_owned() })
        }
        Err(status) => Err(problem(status)),
    }
}

/// What a storage controller says when it maps or unmaps. It answered itself, so what it waited for in vain is a
/// cluster.
pub fn problem(status: Status) -> Problem {
    if status.code() == Code::DeadlineExceeded {
        return Problem { reason: "ClusterAway", message: status.message().to_owned() };
    }
    status.into()
}

#[cfg(test)]
mod tests {
    use super::{key_of, problem};
    use orrery_proto::core::v1::{Secret, SecretSpec};

    #[test]
    fn a_silent_cluster_is_told_from_a_host_that_is_away() {
        let reason = |code| problem(tonic::Status::new(code, "why")).reason;
        assert_eq!(reason(tonic::Code::DeadlineExceeded), "ClusterAway");
        assert_eq!(reason(tonic::Code::Unavailable), "HostAway");
        assert_eq!(reason(tonic::Code::PermissionDenied), "AccessDenied");
    }

    #[test]
    fn a_key_is_a_value_of_a_secret() {
        let read = |name: &str, value: &[u8]| {
            let data = [(name.to_owned(), value.to_vec())].into();
            let spec = SecretSpec { data, ..SecretSpec::default() };
            key_of(Secret { spec: Some(spec), ..Secret::default() }, "ceph", "orrery")
        };
        assert_eq!(read("key", b"AAAA\n"), Ok("AAAA".to_owned()));
        let missing = read("password", b"AAAA").unwrap_err();
        assert!(missing.contains("ceph") && missing.contains("client.orrery"), "{missing}");
        assert!(read("key", b"\xff").unwrap_err().contains("no text"));
    }
}

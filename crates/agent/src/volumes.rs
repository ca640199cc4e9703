//! Volumes on this node: brought to the host before a program that mounts them starts, and let go of
//! when the last instance that used them is removed.
//!
//! ```text
//!  <data>/volumes/<uid of the volume>/mount      the file system, once per node
//!                                    /users/<instance>   who needs it, so that a crash forgets nobody
//! ```
//!
//! What makes a device appear and a file system of it is behind [`HostVolumes`]: this crate does not
//! know block devices.
use crate::disk;
use crate::model::InstanceId;
use orrery_proto::fleet::v1::{Assignment, AttachedVolume};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tokio::sync::Mutex;

/// Of all volumes, in the data folder.
const FOLDER: &str = "volumes";

/// Turns an attached volume into a folder of this host.
#[async_trait::async_trait]
pub trait HostVolumes: std::fmt::Debug + Send + Sync + 'static {
    /// Mounts the volume at `place`, with the file system it asks for if it is blank. Doing it again
    /// changes nothing.
    async fn stage(&self, volume: &AttachedVolume, place: &Path) -> Result<(), String>;

    /// Unmounts what is at `place`. Nothing being there is fine.
    async fn unstage(&self, place: &Path) -> Result<(), String>;
}

/// A folder of the host that a program sees elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bind {
    pub source: PathBuf,
    pub target: PathBuf,
    pub read_only: bool,
}

/// The volumes of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    folder: PathBuf,
    host: Option<Arc<dyn HostVolumes>>,
    /// One at a time for each volume.
    turns: Arc<std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>>,
}

/// What has to happen before the volumes of an instance can be mounted, if anything.
pub(crate) fn waiting(assignment: &Assignment) -> Option<String> {
    let mounts = assignment.spec.iter().flat_map(|spec| &spec.volumes);
    let waiting: Vec<String> = mounts
        .filter_map(|mount| match attached(assignment, mount.volume()) {
            Some(volume) if !volume.device.is_empty() => None,
            Some(volume) => Some(format!("the volume {:?}: {}", mount.volume(), volume.waiting)),
            None => Some(format!("the volume {:?} to be attached", mount.volume())),
        })
        .collect();
    (!waiting.is_empty()).then(|| format!("waiting for {}", waiting.join(", and for ")))
}

fn attached<'a>(assignment: &'a Assignment, name: &str) -> Option<&'a AttachedVolume> {
    assignment.volumes.iter().find(|volume| volume.volume == name)
}

impl Volumes {
    pub(crate) fn new(data_dir: &Path, host: Option<Arc<dyn HostVolumes>>) -> Self {
        Self { folder: data_dir.join(FOLDER), host, turns: Arc::default() }
    }

    /// Brings the volumes of an instance to the host, and says what its program should see where.
    pub(crate) async fn prepare(
        &self,
        id: &InstanceId,
        assignment: &Assignment,
    ) -> Result<Vec<Bind>, String> {
        let mounts = assignment.spec.iter().flat_map(|spec| &spec.volumes);
        let mut binds = Vec::new();
        for mount in mounts {
            let name = mount.volume();
            let volume = attached(assignment, name).filter(|volume| !volume.device.is_empty());
            let volume = volume.ok_or_else(|| format!("the volume {name:?} is not attached"))?;
            let source = self.bring(id, volume).await;
            let source =
                source.map_err(|why| format!("cannot mount the volume {name:?}: {why}"))?;
            let (target, read_only) = (PathBuf::from(mount.path()), mount.read_only());
            binds.push(Bind { source, target, read_only });
        }
        Ok(binds)
    }

    /// Notes that an instance uses the volumes in these places, which its run knew and the notes did not.
    pub(crate) fn note_again(
        data_dir: &Path,
        id: &InstanceId,
        places: &[PathBuf],
    ) -> io::Result<()> {
        let all = data_dir.join(FOLDER);
        let folders = places.iter().filter_map(|place| place.parent());
        for folder in folders.filter(|folder| folder.parent() == Some(&all)) {
            let users = folder.join("users");
            disk::make_folder(&users)?;
            fs::write(users.join(id.as_str()), "")?;
        }
        Ok(())
    }

    async fn bring(&self, id: &InstanceId, volume: &AttachedVolume) -> Result<PathBuf, String> {
        let host = self.host.as_ref().ok_or("this agent was started without volumes")?;
        // The uid becomes the name of a folder, like that of an instance.
        let key = InstanceId::new(&volume.id).ok_or("it has no usable id")?;
        let turn = self.turn(key.as_str());
        let _turn = turn.lock().await;
        let folder = self.folder.join(key.as_str());
        let users = folder.join("users");
        let user = users.join(id.as_str());
        let noted = disk::make_folder(&users).and_then(|()| fs::write(&user, ""));
        noted.map_err(|error| format!("cannot write {}: {error}", user.display()))?;
        let place = folder.join("mount");
        host.stage(volume, &place).await?;
        Ok(place)
    }

    /// Lets go of every volume that only this instance used. Done again after a crash, because its
    /// name is taken out last.
    pub(crate) async fn release(&self, id: &InstanceId) -> Result<(), String> {
        for folder in self.all().map_err(|error| format!("cannot list the volumes: {error}"))? {
            let used = folder.join("users").join(id.as_str());
            if used.exists() {
                self.let_go(&folder, &used).await?;
            }
        }
        Ok(())
    }

    /// The folders of all volumes. Listed to the end: an open listing would keep the folder in use.
    fn all(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(folders) => folders.map(|folder| folder.map(|folder| folder.path())).collect(),
        }
    }

    async fn let_go(&self, folder: &Path, used: &Path) -> Result<(), String> {
        let key = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let turn = self.turn(&key);
        let _turn = turn.lock().await;
        let trouble = |error: io::Error| format!("cannot let go of the volume {key}: {error}");
        let users = fs::read_dir(folder.join("users")).map_err(trouble)?.count();
        if users <= 1 {
            let host = self.host.as_ref().ok_or("this agent was started without volumes")?;
            host.unstage(&folder.join("mount")).await?;
            return remove(folder).map_err(trouble);
        }
        fs::remove_file(used).map_err(trouble)
    }

    fn turn(&self, key: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        turns.entry(key.to_owned()).or_default().clone()
    }
}

/// Removes what is left of a volume that is not mounted any more. Nothing is deleted that is not
/// ours: the place of the mount must be empty.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder.join("mount")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{VolumeMount, WorkloadInstanceSpec};
    use parking::Log;

    /// Notes what it is asked for.
    mod parking {
        use super::*;

        #[derive(Debug, Default)]
        pub struct Log(pub std::sync::Mutex<Vec<String>>);

        #[async_trait::async_trait]
        impl HostVolumes for Log {
            async fn stage(&self, volume: &AttachedVolume, place: &Path) -> Result<(), String> {
                fs::create_dir_all(place).unwrap();
                self.0.lock().unwrap().push(format!("stage {}", volume.volume));
                Ok(())
            }

            async fn unstage(&self, place: &Path) -> Result<(), String> {
                let volume = place.parent().unwrap().file_name().unwrap().to_string_lossy();
                self.0.lock().unwrap().push(format!("unstage {volume}"));
                Ok(())
            }
        }
    }

    fn assignment(device: &str, why: &str) -> Assignment {
        let mount = VolumeMount {
            volume: Some("data".into()),
            path: Some("/data".into()),
            read_only: Some(true),
        };
        let volume = AttachedVolume {
            volume: "data".into(),
            id: "u-1".into(),
            device: device.into(),
            waiting: why.into(),
            ..AttachedVolume::default()
        };
        let spec = WorkloadInstanceSpec { volumes: vec![mount], ..<_>::default() };
        Assignment { spec: Some(spec), volumes: vec![volume], ..Assignment::default() }
    }

    #[test]
    fn what_is_waited_for_is_said() {
        assert_eq!(waiting(&Assignment::default()), None);
        assert_eq!(waiting(&assignment("/devices/x", "")), None);
        let said = waiting(&assignment("", "host-1 is away")).unwrap();
        assert_eq!(said, "waiting for the volume \"data\": host-1 is away");
        let unknown = Assignment { volumes: Vec::new(), ..assignment("", "") };
        assert!(waiting(&unknown).unwrap().contains("to be attached"));
    }

    #[tokio::test]
    async fn a_volume_stays_mounted_until_its_last_user_goes() {
        let dir = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::default());
        let volumes = Volumes::new(dir.path(), Some(log.clone()));
        let [one, two] = ["i-1", "i-2"].map(|id| InstanceId::new(id).unwrap());
        let wanted = assignment("/devices/x", "");
        let binds = volumes.prepare(&one, &wanted).await.unwrap();
        let source = dir.path().join("volumes/u-1/mount");
        let expect = Bind { source, target: "/data".into(), read_only: true };
        assert_eq!(binds, [expect]);
        volumes.prepare(&two, &wanted).await.unwrap();
        volumes.release(&one).await.unwrap();
        volumes.release(&one).await.unwrap();
        assert_eq!(*log.0.lock().unwrap(), ["stage data", "stage data"]);
        volumes.release(&two).await.unwrap();
        assert_eq!(log.0.lock().unwrap().last().unwrap(), "unstage u-1");
        assert!(!dir.path().join("volumes/u-1").exists());
    }

    #[tokio::test]
    async fn an_agent_without_volumes_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = Volumes::new(dir.path(), None);
        let id = InstanceId::new("i-1").unwrap();
        let why = volumes.prepare(&id, &assignment("/devices/x", "")).await.unwrap_err();
        assert!(why.contains("started without volumes"), "{why}");
    }
}

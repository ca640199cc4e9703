//! The ways in which a volume may be used.
use crate::{
    error::{Error, Result},
    host::filesystem::KINDS,
};
use orrery_proto::csi::v1::{
    VolumeCapability,
    volume_capability::{AccessType, access_mode::Mode},
};

/// The specification's limit for all mount flags together.
const FLAGS_BYTES_MAX: usize = 4096;

/// A use that this driver supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub access: Access,
    pub mode: Mode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Block,
    Mount {
        filesystem: String,
        /// Whether the caller chose the file system, rather than taking what comes.
        chosen: bool,
        flags: Vec<String>,
    },
}

impl Use {
    /// Whether the mode by itself forbids writing.
    pub fn reads_only(&self) -> bool {
        self.mode == Mode::SingleNodeReaderOnly
    }

    /// Whether several target paths may show the volume at once.
    pub fn shared(&self) -> bool {
        self.mode == Mode::SingleNodeMultiWriter
    }
}

/// Reads one capability; what is missing or not supported is an invalid argument.
pub fn read(capability: Option<&VolumeCapability>) -> Result<Use> {
    let capability = capability.ok_or_else(|| invalid("volume_capability is missing"))?;
    Ok(Use { access: access(capability)?, mode: mode(capability)? })
}

/// Reads all of them; there has to be at least one.
pub fn read_all(capabilities: &[VolumeCapability]) -> Result<Vec<Use>> {
    if capabilities.is_empty() {
        return Err(invalid("volume_capabilities are missing"));
    }
    capabilities.iter().map(|capability| read(Some(capability))).collect()
}

fn invalid(message: &str) -> Error {
    Error::Invalid(message.to_owned())
}

fn mode(capability: &VolumeCapability) -> Result<Mode> {
    let number = capability.access_mode.as_ref().map(|access| access.mode);
    let number = number.ok_or_else(|| invalid("access_mode is missing"))?;
    match Mode::try_from(number) {
        Ok(
            mode @ (Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter),
        ) => Ok(mode),
        Ok(
            mode @ (Mode::MultiNodeReaderOnly
            | Mode::MultiNodeSingleWriter
            | Mode::MultiNodeMultiWriter),
        ) => Err(Error::Invalid(format!(
            "access mode {} is not supported: a volume is on one node",
            mode.as_str_name()
        ))),
        Ok(Mode::Unknown) | Err(_) => Err(Error::Invalid(format!("unknown access mode {number}"))),
    }
}

fn access(capability: &VolumeCapability) -> Result<Access> {
    let mount = match &capability.access_type {
        None => return Err(invalid("access_type is missing: block or mount")),
        Some(AccessType::Block(_)) => return Ok(Access::Block),
        Some(AccessType::Mount(mount)) => mount,
    };
    let chosen = !mount.fs_type.is_empty();
    let filesystem = if chosen { mount.fs_type.as_str() } else { KINDS[0] };
    if !KINDS.contains(&filesystem) {
        return Err(Error::Invalid(format!(
            "the file system {filesystem:?} is not supported: use one of {KINDS:?}"
        )));
    }
    let length: usize = mount.mount_flags.iter().map(String::len).sum();
    if length > FLAGS_BYTES_MAX || mount.mount_flags.iter().any(String::is_empty) {
        return Err(invalid("mount_flags are empty or longer than 4096 bytes"));
    }
    if !mount.volume_mount_group.is_empty() {
        return Err(invalid("volume_mount_group is not supported"));
    }
    Ok(Access::Mount {
        filesystem: filesystem.to_owned(),
        chosen,
        flags: mount.mount_flags.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Access, read, read_all};
    use orrery_proto::csi::v1::{
        VolumeCapability,
        volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode},
    };

    fn mount(fs_type: &str, mode: Mode) -> VolumeCapability {
        let volume = MountVolume { fs_type: fs_type.into(), ..Default::default() };
        VolumeCapability {
            access_type: Some(AccessType::Mount(volume)),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn single_node_modes_and_common_file_systems_are_supported() {
        let found = read(Some(&mount("", Mode::SingleNodeWriter))).unwrap();
        assert!(
            matches!(found.access, Access::Mount { chosen: false, filesystem, .. } if filesystem == "ext4")
        );
        for (mode, works) in [
            (Mode::SingleNodeReaderOnly, true),
            (Mode::SingleNodeSingleWriter, true),
            (Mode::SingleNodeMultiWriter, true),
            (Mode::MultiNodeReaderOnly, false),
            (Mode::MultiNodeSingleWriter, false),
            (Mode::MultiNodeMultiWriter, false),
            (Mode::Unknown, false),
        ] {
            assert_eq!(read(Some(&mount("xfs", mode))).is_ok(), works, "{mode:?}");
        }
    }

    #[test]
    fn what_is_missing_or_unknown_is_refused() {
        let good = mount("ext4", Mode::SingleNodeWriter);
        let block = VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..good.clone()
        };
        assert_eq!(read(Some(&block)).unwrap().access, Access::Block);
        for bad in [
            VolumeCapability { access_type: None, ..good.clone() },
            VolumeCapability { access_mode: None, ..good.clone() },
            mount("ntfs", Mode::SingleNodeWriter),
            mount("ext4,suid", Mode::SingleNodeWriter),
        ] {
            assert!(read(Some(&bad)).is_err(), "{bad:?}");
            assert!(read_all(&[good.clone(), bad]).is_err());
        }
        assert!(read(None).is_err() && read_all(&[]).is_err());
    }
}

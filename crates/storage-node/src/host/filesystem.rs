//! File systems on block devices: what is there, making one, growing one.
use super::{block::BlockDevice, ext, program};
use crate::error::{Doing, Error, Result, blocking};
use std::{fs::File, os::unix::fs::FileExt, path::Path};

/// The file systems that can be asked for; the first is what one gets without asking.
pub const KINDS: [&str; 5] = ["ext4", "ext3", "ext2", "xfs", "btrfs"];

/// Where other things than file systems leave their marks too: boot sectors, partition tables, volume
/// managers and RAID at one end or the other.
const EDGE_BYTES: u64 = 1 << 20;

/// The bit of e2fsck's exit code that says that errors are left.
const E2FSCK_LEFT_ERRORS: i32 = 4;

/// What a device carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing that anybody would recognise, and zeros at both ends.
    Blank,
    Filesystem(String),
    /// Something else, in words for people.
    Other(String),
}

/// Looks at a device without mounting it.
pub async fn content(device: &BlockDevice) -> Result<Content> {
    let node = device.node.to_string_lossy().into_owned();
    let found = program::output("blkid", &["-p", "-o", "export", &node]).await?;
    match found.status.code() {
        Some(0) => Ok(recognised(&String::from_utf8_lossy(&found.stdout))),
        Some(2) => blank_or_unknown(device.clone()).await,
        Some(8) => Ok(Content::Other("signatures of several file systems".to_owned())),
        _ => {
            let said = String::from_utf8_lossy(&found.stderr);
            let reason = std::io::Error::other(format!("{}: {}", found.status, said.trim()));
            Err(Error::io(format!("look at {node}"), reason))
        }
    }
}

fn recognised(export: &str) -> Content {
    let value = |key: &str| {
        export.lines().find_map(|line| line.split_once('=').filter(|(name, _)| *name == key))
    };
    match (value("USAGE"), value("TYPE"), value("PTTYPE")) {
        (Some((_, "filesystem")), Some((_, kind)), _) => Content::Filesystem(kind.to_owned()),
        (_, Some((_, kind)), _) => Content::Other(format!("a {kind}")),
        (_, _, Some((_, kind))) => Content::Other(format!("a {kind} partition table")),
        _ => Content::Other(format!("something that blkid calls {:?}", export.trim())),
    }
}

async fn blank_or_unknown(device: BlockDevice) -> Result<Content> {
    let size = device.size_bytes()?;
    blocking(move || {
        let doing = || format!("read {}", device.node.display());
        let file = File::open(&device.node).doing(doing)?;
        let edge = EDGE_BYTES.min(size);
        let mut bytes = vec![0; usize::try_from(edge).unwrap_or_default()];
        for start in [0, size - edge] {
            file.read_exact_at(&mut bytes, start).doing(doing)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(Content::Other("data that is no file system".to_owned()));
            }
        }
        Ok(Content::Blank)
    })
    .await
}

/// Makes a file system. The caller has made sure that nothing is lost.
pub async fn make(device: &BlockDevice, kind: &str) -> Result<()> {
    let node = device.node.to_string_lossy();
    let arguments: &[&str] = match kind {
        // No blocks are kept back for root: a volume is not the system's own disk.
        kind if ext::is(kind) => &["-q", "-F", "-m", "0"],
        "xfs" => &["-q", "-f"],
        "btrfs" => &["-q", "-f"],
        _ => return Err(Error::Invalid(format!("the file system {kind:?} cannot be made here"))),
    };
    let arguments: Vec<&str> = arguments.iter().copied().chain([node.as_ref()]).collect();
    program::write(&format!("mkfs.{kind}"), &arguments).await
}

/// Lets a file system that is not mounted use all of its device, where that kind grows so. It is
/// checked first, because growing a damaged one damages it more.
pub async fn grow_unmounted(device: &BlockDevice, kind: &str) -> Result<()> {
    if !ext::is(kind) || !ext::has_room(device).await? {
        return Ok(());
    }
    let node = device.node.to_string_lossy();
    let checked = program::to_the_end("e2fsck", &["-f", "-p", node.as_ref()]).await?;
    match checked.status.code() {
        // 1 means that something was found and put right.
        Some(0 | 1) => {}
        Some(code) if code & E2FSCK_LEFT_ERRORS != 0 => {
            let said = String::from_utf8_lossy(&checked.stdout);
            let said = said.trim();
            return Err(Error::Lost(format!("the file system on {node} is damaged: {said}")));
        }
        // It could not look, because somebody else uses the device, for example.
        _ => program::succeeded("e2fsck", &checked)?,
    }
    program::write("resize2fs", &[node.as_ref()]).await
}

/// Lets a mounted file system use all of its device. One that does so already is fine.
pub async fn grow_mounted(device: &BlockDevice, kind: &str, place: &Path) -> Result<()> {
    let (node, place) = (device.node.to_string_lossy(), place.to_string_lossy());
    match kind {
        kind if ext::is(kind) => {
            if !ext::has_room(device).await? {
                return Ok(());
            }
            if !ext::may_grow_mounted()? {
                return Err(Error::InUse(format!(
                    "a mounted {kind} cannot be grown without the capability CAP_SYS_RESOURCE; it \
                     grows when the volume is staged the next time"
                )));
            }
            program::write("resize2fs", &[node.as_ref()]).await
        }
        "xfs" => program::write("xfs_growfs", &[place.as_ref()]).await,
        "btrfs" => program::write("btrfs", &["filesystem", "resize", "max", place.as_ref()]).await,
        _ => Err(Error::Unsupported(format!("a {kind} cannot grow here"))),
    }
}

/// Errors that an ext4 has noticed on its device since it was made.
pub fn errors_noticed(device: &BlockDevice) -> u64 {
    let Some(name) = device.node.file_name() else { return 0 };
    let path = Path::new("/sys/fs/ext4").join(name).join("errors_count");
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Content, recognised};

    #[test]
    fn what_blkid_says_is_understood() {
        let check = |text: &str, expect: Content| assert_eq!(recognised(text), expect, "{text:?}");
        let ext4 = "DEVNAME=/dev/loop1\nUUID=x\nTYPE=ext4\nUSAGE=filesystem\n";
        check(ext4, Content::Filesystem("ext4".into()));
        check("TYPE=LVM2_member\nUSAGE=raid\n", Content::Other("a LVM2_member".into()));
        check("TYPE=swap\nUSAGE=other\n", Content::Other("a swap".into()));
        check("PTUUID=y\nPTTYPE=dos\n", Content::Other("a dos partition table".into()));
        let strange = Content::Other("something that blkid calls \"A=b\"".into());
        check("A=b\n", strange);
    }
}

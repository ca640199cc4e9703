//! What has to be known about ext2, ext3 and ext4 to grow them.
use super::block::BlockDevice;
use crate::error::{Doing, Error, Result, blocking};
use std::{fs, fs::File, os::unix::fs::FileExt};

/// Where the superblock starts, and how much of it is looked at.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xEF53;
/// The flag in `s_feature_incompat` that says that block counts have 64 bits.
const INCOMPAT_64BIT: u32 = 0x80;
/// A last group of blocks smaller than this is left unused, as it would hold little but its own tables.
const REST_BYTES: u64 = 1 << 20;
/// The bit of the capability that the kernel asks for before it grows a mounted ext4.
const CAP_SYS_RESOURCE: u32 = 24;

/// Whether this is one of the family.
pub fn is(kind: &str) -> bool {
    matches!(kind, "ext2" | "ext3" | "ext4")
}

/// Whether the device is larger than the file system on it.
pub async fn has_room(device: &BlockDevice) -> Result<bool> {
    let room = device.size_bytes()?;
    let device = device.clone();
    blocking(move || {
        let doing = || format!("read the superblock of {}", device.node.display());
        let mut superblock = [0; SUPERBLOCK_BYTES];
        let file = File::open(&device.node).doing(doing)?;
        file.read_exact_at(&mut superblock, SUPERBLOCK_AT).doing(doing)?;
        let used = size(&superblock);
        let used = used
            .ok_or_else(|| Error::Lost(format!("{} has no superblock", device.node.display())))?;
        Ok(room.saturating_sub(used) >= REST_BYTES)
    })
    .await
}

/// The size that a superblock says, in bytes.
fn size(superblock: &[u8; SUPERBLOCK_BYTES]) -> Option<u64> {
    let word = |at: usize| {
        let bytes = superblock.get(at..at + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    if u16::from_le_bytes([superblock[0x38], superblock[0x39]]) != MAGIC {
        return None;
    }
    let high = if word(0x60)? & INCOMPAT_64BIT == 0 { 0 } else { word(0x150)? };
    let blocks = u64::from(high) << 32 | u64::from(word(4)?);
    blocks.checked_shl(10u32.checked_add(word(0x18)?)?)
}

/// Whether the kernel lets this process grow a mounted file system.
pub fn may_grow_mounted() -> Result<bool> {
    let text =
        fs::read_to_string("/proc/self/status").doing(|| "read our capabilities".to_owned())?;
    let effective = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    Ok(bits >> CAP_SYS_RESOURCE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::{SUPERBLOCK_BYTES, size};

    #[test]
    fn the_size_is_read_from_the_superblock() {
        let mut superblock = [0; SUPERBLOCK_BYTES];
        assert_eq!(size(&superblock), None, "no magic number");
        superblock[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
        superblock[4..8].copy_from_slice(&4096u32.to_le_bytes());
        superblock[0x18] = 2;
        assert_eq!(size(&superblock), Some(16 << 20));
        superblock[0x150] = 1;
        assert_eq!(size(&superblock), Some(16 << 20), "not without the 64-bit flag");
        superblock[0x60] = 0x80;
        assert_eq!(size(&superblock), Some((1 << 44) + (16 << 20)));
        superblock[0x18..0x1C].copy_from_slice(&[255; 4]);
        assert_eq!(size(&superblock), None, "nonsense is no size");
    }
}

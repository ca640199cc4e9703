//! The kernel's interface to loop devices, and the two calls that freeze a file system. This is the
//! only place of the crate that needs `unsafe`: each ioctl has to be called with the argument that
//! its number stands for, and nothing checks that but the reader.
#![allow(unsafe_code)]
use rustix::{
    fd::{AsFd, AsRawFd},
    io::Result,
    ioctl::{IntegerSetter, NoArg, Setter, ioctl},
};

const LOOP_CLR_FD: u32 = 0x4C01;
const LOOP_SET_CAPACITY: u32 = 0x4C07;
const LOOP_CONFIGURE: u32 = 0x4C0A;
const LOOP_CTL_ADD: u32 = 0x4C80;
const LOOP_CTL_REMOVE: u32 = 0x4C81;
const FIFREEZE: u32 = 0xC004_5877;
const FITHAW: u32 = 0xC004_5878;

/// `struct loop_info64` of the kernel; we leave all of it at zero.
#[repr(C)]
struct LoopInfo {
    numbers: [u64; 5],
    words: [u32; 4],
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// Makes the loop device with this number.
pub fn add(control: impl AsFd, number: u32) -> Result<()> {
    // SAFETY: LOOP_CTL_ADD takes the number itself and touches no memory of ours.
    unsafe { ioctl(control, IntegerSetter::<LOOP_CTL_ADD>::new_usize(number as usize)) }
}

/// Removes the loop device with this number, which must not be in use.
pub fn remove(control: impl AsFd, number: u32) -> Result<()> {
    // SAFETY: LOOP_CTL_REMOVE takes the number itself and touches no memory of ours.
    unsafe { ioctl(control, IntegerSetter::<LOOP_CTL_REMOVE>::new_usize(number as usize)) }
}

/// Attaches a file to a loop device that has none.
pub fn configure(device: impl AsFd, file: impl AsFd) -> Result<()> {
    let info = LoopInfo {
        numbers: [0; 5],
        words: [0; 4],
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let fd = file.as_fd().as_raw_fd().cast_unsigned();
    let config = LoopConfig { fd, block_size: 512, info, reserved: [0; 8] };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, which has the layout asserted above; the
    // descriptor in it stays open until the call returns, and the kernel takes its own reference.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

/// Detaches the file, at once or when the last user closes the device.
pub fn clear(device: impl AsFd) -> Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

/// Makes the device as large as its file has become.
pub fn set_capacity(device: impl AsFd) -> Result<()> {
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_SET_CAPACITY>::new()) }
}

/// Flushes a mounted file system and stops writes to it.
pub fn freeze(mounted: impl AsFd) -> Result<()> {
    // SAFETY: FIFREEZE ignores its argument.
    unsafe { ioctl(mounted, IntegerSetter::<FIFREEZE>::new_usize(0)) }
}

/// Lets writes go on.
pub fn thaw(mounted: impl AsFd) -> Result<()> {
    // SAFETY: FITHAW ignores its argument.
    unsafe { ioctl(mounted, IntegerSetter::<FITHAW>::new_usize(0)) }
}

//! Descriptors that came along by accident.
//!
//! Whoever started the agent may have left files and pipes open in it: a log, one end of a pipe that
//! somebody waits on. The supervisor lives for years; it must not keep them open, nor hand them to
//! the program.
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::{fs, io, os::fd::BorrowedFd, os::unix::process::CommandExt, process::Command};

/// Everything above standard input, output and error.
const FIRST: i32 = 3;

/// Starts this process over without inherited descriptors, if it has any; usually it has none.
/// They cannot simply be closed: somebody in this process may think that they are theirs.
pub(super) fn shed() -> io::Result<()> {
    if !mark_inherited()? {
        return Ok(());
    }
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    Err(Command::new("/proc/self/exe").arg0(name).args(args).exec())
}

/// Marks all inherited descriptors to be closed at the next exec; false when there are none.
fn mark_inherited() -> io::Result<bool> {
    let mut found = false;
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST) {
            found |= mark(number)?;
        }
    }
    Ok(found)
}

#[allow(unsafe_code, reason = "a number from /proc is no handle, and there is no other way to one")]
fn mark(number: i32) -> io::Result<bool> {
    // SAFETY: the kernel has just listed it as open, and the supervisor has a single thread at this
    // point, which closes nothing before the handle is gone.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfd(descriptor)?;
    if flags.contains(FdFlags::CLOEXEC) {
        return Ok(false);
    }
    fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC)?;
    Ok(true)
}

//! What happens between a fork and a program: limits, groups, another user.
//!
//! Some things can only be done by the process that becomes the program. So the supervisor starts this
//! very binary once more, which reads what to become, prepares itself, and becomes it:
//!
//! ```text
//!   supervisor -- fork, exec --> stage: groups, limits, user -- exec --> program (same process)
//! ```
//! What goes wrong is said on a descriptor that vanishes when all went well.
use super::program::{self, NoStart};
use crate::cgroups;
use crate::runtime::process::record::{self, Folder, Launch, Limits};
use crate::users::{self, User};
use rustix::process::{Gid, Resource, Rlimit, Uid, getegid, geteuid, setrlimit, setsid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::unix::fs::chown,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

/// The word that tells a stage from a supervisor: what goes wrong is said on standard input, which
/// the program does not get.
pub(crate) const STAGE: &str = "stage";
/// A command that somebody runs beside a program: what goes wrong is said on standard error.
pub(crate) const BESIDE: &str = "beside";
/// The same with standard input, output and error on a terminal of its own.
pub(crate) const BESIDE_TERMINAL: &str = "beside-terminal";

/// What a shell says when a command cannot be started, and when there is none.
const CANNOT_START: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Takes the folder of the instance, the file that says what to become, and groups to join.
pub(super) fn main(how: &str, args: Vec<OsString>) -> ExitCode {
    let mut args = args.into_iter().map(PathBuf::from);
    let (Some(folder), Some(file)) = (args.next(), args.next()) else {
        return ExitCode::FAILURE;
    };
    let groups: Vec<PathBuf> = args.collect();
    let said = voice(how).and_then(|mut voice| {
        let Err(no_start) = become_program(how, &folder, &file, &groups);
        voice.write_all(no_start.why.as_bytes())?;
        Ok(no_start.found)
    });
    match said {
        Ok(true) => ExitCode::from(CANNOT_START),
        Ok(false) => ExitCode::from(NOT_FOUND),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Where to say what goes wrong. The program does not get it: it is closed when all went well.
fn voice(how: &str) -> io::Result<File> {
    const ABOVE_THE_STANDARD: i32 = 3;
    let kept = match how {
        STAGE => rustix::io::fcntl_dupfd_cloexec(io::stdin(), ABOVE_THE_STANDARD),
        _ => rustix::io::fcntl_dupfd_cloexec(io::stderr(), ABOVE_THE_STANDARD),
    };
    Ok(File::from(kept?))
}

/// Returns only when it failed, with the reason.
fn become_program(
    how: &str,
    folder: &Path,
    file: &Path,
    groups: &[PathBuf],
) -> Result<std::convert::Infallible, NoStart> {
    let folder = Folder::new(folder.to_owned());
    let launch = record::read_launch(file.to_owned()).map_err(|error| error.to_string())?;
    let launch = launch.ok_or_else(|| format!("{} is not there", file.display()))?;
    if how != STAGE {
        // It was for this command alone, and holds its environment.
        std::fs::remove_file(file).map_err(|error| error.to_string())?;
    }
    if how == BESIDE_TERMINAL {
        terminal().map_err(|error| format!("cannot take its terminal: {error}"))?;
    }
    if how != STAGE {
        // A program has its view from its supervisor; a command beside it makes the same one.
        super::view::enter(&launch.volumes, folder.path())?;
    }
    cgroups::join(groups).map_err(|error| format!("cannot join its control group: {error}"))?;
    let mut command = program::command(&folder, &launch)?;
    if how == STAGE {
        command.stdin(Stdio::null());
    }
    prepare(&folder, &launch)?;
    let error = command.exec();
    Err(program::refused(Path::new(command.get_program()), &error).into())
}

/// The folder is entered first: another user may not find the way to it.
fn prepare(folder: &Folder, launch: &Launch) -> Result<(), String> {
    let directory = program::working_directory(folder, launch)?;
    std::env::set_current_dir(&directory)
        .map_err(|error| format!("cannot enter {}: {error}", directory.display()))?;
    limit(&launch.limits).map_err(|error| format!("cannot set its limits: {error}"))?;
    if let Some(user) = &launch.user {
        let found = users::find(user).map_err(|error| error.to_string())?;
        if launch.working_directory.is_none() {
            chown(&directory, Some(found.uid), Some(found.gid))
                .map_err(|error| format!("cannot give its folder to user {user:?}: {error}"))?;
        }
        become_user(&found).map_err(|error| format!("cannot become user {user:?}: {error}"))?;
    }
    Ok(())
}

/// With all groups of the user, as after a login. What is set is of this thread, and the program takes
/// it over.
fn become_user(user: &User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if (geteuid(), getegid()) == (uid, gid) && !geteuid().is_root() {
        return Ok(());
    }
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

fn limit(limits: &Limits) -> io::Result<()> {
    let all = [
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, limits.processes),
        (Resource::Core, limits.core_bytes),
        (Resource::As, limits.address_space_bytes),
        (Resource::Stack, limits.stack_bytes),
    ];
    for (resource, amount) in all {
        if amount.is_some() {
            setrlimit(resource, Rlimit { current: amount, maximum: amount })?;
        }
    }
    Ok(())
}

/// Makes the terminal on standard input the one of this process and what it becomes.
fn terminal() -> io::Result<()> {
    setsid()?;
    rustix::process::ioctl_tiocsctty(io::stdin())?;
    Ok(())
}

//! Finding and starting the program, with words for each way in which that can fail.
use super::logs::{Limits, Log};
use super::stage::STAGE;
use super::view;
use crate::clock;
use crate::model::UnixMillis;
use crate::procfs::{self, Identity};
use crate::runtime::process::record::{Folder, Launch};
use rustix::fs::{Access, access};
use std::{
    ffi::OsString,
    fs, io,
    io::Read,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A program that was started.
pub(super) struct Program {
    pub identity: Identity,
    pub started_at: UnixMillis,
    /// Everything it and its descendants write.
    pub output: OwnedFd,
    /// Where that goes.
    pub log: Log,
}

/// Starts the program in these control groups, or says in one sentence why it cannot.
pub(super) fn start(
    folder: &Folder,
    launch: &Launch,
    groups: &[PathBuf],
) -> Result<Program, String> {
    view::enter(&launch.volumes, folder.path())?;
    let log = Log::open(&folder.logs(), Limits::default(), clock::unix_now())
        .map_err(|error| format!("cannot open its log: {}", plain(&error)))?;
    let (output, sink) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    let again = sink.try_clone().map_err(|error| format!("cannot make a pipe: {error}"))?;
    let child = match launch.needs_stage() {
        false => spawn(folder, launch, sink.into(), again.into())?,
        true => spawn_staged(folder, groups, sink.into(), again.into())?,
    };
    let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
    // It stays visible until it is waited for, even if it has ended already.
    let stat = procfs::stat(pid).ok_or("/proc does not show the program")?;
    Ok(Program {
        identity: stat.identity,
        started_at: clock::unix_now(),
        output: output.into(),
        log,
    })
}

/// The program with its arguments and environment; where it starts is left to the caller.
pub(super) fn command(folder: &Folder, launch: &Launch) -> Result<Command, NoStart> {
    let directory = working_directory(folder, launch)?;
    let path = launch.env.get("PATH").map(String::as_str).unwrap_or_default();
    let file = resolve(&launch.command, path, &directory)?;
    let mut command = Command::new(&file);
    command.arg0(&launch.command).args(&launch.args).env_clear().envs(&launch.env);
    Ok(command)
}

fn spawn(folder: &Folder, launch: &Launch, stdout: Stdio, stderr: Stdio) -> Result<Child, String> {
    let mut command = command(folder, launch).map_err(|no_start| no_start.why)?;
    command.current_dir(working_directory(folder, launch)?).process_group(0);
    let spawned = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
    spawned.map_err(|error| refused(Path::new(command.get_program()), &error))
}

/// By way of a stage, which says on its standard input why it did not become the program.
fn spawn_staged(
    folder: &Folder,
    groups: &[PathBuf],
    stdout: Stdio,
    stderr: Stdio,
) -> Result<Child, String> {
    let (mut heard, voice) = io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
    let mut command = Command::new("/proc/self/exe");
    command.args(own_words()).arg(STAGE).arg(folder.path()).arg(folder.launch()).args(groups);
    command.env_clear().process_group(0).stdin(voice).stdout(stdout).stderr(stderr);
    let spawned = command.spawn();
    // Our end of the pipe goes with it; what is left is the stage's.
    drop(command);
    let mut child = spawned.map_err(|error| format!("cannot start a stage: {error}"))?;
    let mut message = String::new();
    heard.read_to_string(&mut message).map_err(|error| error.to_string())?;
    if message.is_empty() {
        return Ok(child);
    }
    child.wait().map_err(|error| error.to_string())?;
    Err(message)
}

/// The arguments that make this binary a supervisor, without the folder at their end.
fn own_words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    words.pop();
    words
}

pub(super) fn working_directory(folder: &Folder, launch: &Launch) -> Result<PathBuf, String> {
    let Some(directory) = launch.working_directory.as_ref().map(PathBuf::from) else {
        return Ok(folder.work());
    };
    let name = directory.display();
    match fs::metadata(&directory) {
        Err(error) => Err(format!("cannot use the working directory {name}: {}", plain(&error))),
        Ok(found) if !found.is_dir() => Err(format!("the working directory {name} is a file")),
        Ok(_) if access(&directory, Access::EXEC_OK).is_err() => {
            Err(format!("the working directory {name} may not be entered"))
        }
        Ok(_) => Ok(directory),
    }
}

/// Looks the command up like a shell does: with a slash it is a path, without one it is found along
/// PATH.
fn resolve(command: &str, path: &str, directory: &Path) -> Result<PathBuf, NoStart> {
    if command.is_empty() {
        return Err(NoStart { why: "the command is empty".to_owned(), found: false });
    }
    if command.contains('/') {
        let file = directory.join(command);
        return executable(&file).map(|()| file);
    }
    let candidates = std::env::split_paths(path).map(|entry| directory.join(entry).join(command));
    let mut found_but = None;
    for candidate in candidates.filter(|candidate| candidate.exists()) {
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(why) => found_but = found_but.or(Some(why)),
        }
    }
    Err(found_but.unwrap_or_else(|| {
        let why = format!("{command:?} was not found along PATH ({path})");
        NoStart { why, found: false }
    }))
}

/// Why a program does not start.
#[derive(Debug)]
pub(super) struct NoStart {
    pub why: String,
    /// Whether there is such a file at all.
    pub found: bool,
}

impl From<String> for NoStart {
    fn from(why: String) -> Self {
        Self { why, found: true }
    }
}

fn executable(file: &Path) -> Result<(), NoStart> {
    let name = file.display();
    match fs::metadata(file) {
        Err(error) => {
            let found = error.kind() != io::ErrorKind::NotFound;
            Err(NoStart { why: format!("cannot start {name}: {}", plain(&error)), found })
        }
        Ok(found) if found.is_dir() => Err(format!("cannot start {name}: it is a folder").into()),
        Ok(_) if access(file, Access::EXEC_OK).is_err() => {
            Err(format!("cannot start {name}: it is not executable").into())
        }
        Ok(_) => Ok(()),
    }
}

/// The file is there and executable, and still the kernel says no.
pub(super) fn refused(file: &Path, error: &io::Error) -> String {
    let name = file.display();
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::NOEXEC) => {
            format!(
                "cannot start {name}: not a program (a script needs a first line like #!/bin/sh)"
            )
        }
        Some(rustix::io::Errno::NOENT) => {
            format!("cannot start {name}: the interpreter that it names was not found")
        }
        Some(rustix::io::Errno::TOOBIG) => {
            format!("cannot start {name}: its arguments and environment are too long")
        }
        Some(_) | None => format!("cannot start {name}: {}", plain(error)),
    }
}

/// What went wrong without the number of the error.
fn plain(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "no such file or folder".to_owned();
    }
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _number)) => words.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn place(dir: &Path, name: &str, mode: u32) {
        let file = dir.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Paths in `expect` are relative to a folder that holds one/tool (not executable), two/tool,
    /// one/data (not executable) and here.sh.
    #[track_caller]
    fn check(command: &str, expect: Result<&str, &str>) {
        let dir = tempfile::tempdir().unwrap();
        place(dir.path(), "one/tool", 0o644);
        place(dir.path(), "one/data", 0o644);
        place(dir.path(), "two/tool", 0o755);
        place(dir.path(), "here.sh", 0o755);
        let path = format!("{0}/zero:{0}/one:{0}/two", dir.path().display());
        let found = resolve(command, &path, dir.path());
        match (found, expect) {
            (Ok(file), Ok(expect)) => assert_eq!(file, dir.path().join(expect)),
            (Err(no), Err(part)) => assert!(no.why.contains(part), "{no:?}"),
            (found, expect) => panic!("{found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn commands_are_found_or_the_reason_is_given() {
        check("tool", Ok("two/tool"));
        check("./here.sh", Ok("./here.sh"));
        check("two/tool", Ok("two/tool"));
        check("data", Err("one/data: it is not executable"));
        check("absent", Err("\"absent\" was not found along PATH"));
        check("./absent", Err("no such file or folder"));
        check("./one", Err("it is a folder"));
        check("one", Err("not found along PATH"));
        check("", Err("the command is empty"));
    }
}

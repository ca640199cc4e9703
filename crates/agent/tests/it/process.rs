//! What a program finds when it starts.
use crate::world::{Program, World, read, wait_for};
use orrery_agent::supervisor::LOG_FILE_MAX_BYTES;
use std::{collections::BTreeMap, fs, path::PathBuf};

#[tokio::test]
async fn the_environment_has_what_is_asked_for_and_no_secrets() {
    let world = World::new();
    let (_agent, mut server) = world.killable_agent().await;
    let mut program = world.script("env > $T/env.tmp; mv $T/env.tmp $T/env; exec sleep 60");
    program.process().env = [("COLOUR".to_owned(), "blue = green".to_owned())].into();
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let text = read(world.path().join("env")).await;
    let env: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [
        ("COLOUR", "blue = green"),
        ("ORRERY_PROJECT", "shop"),
        ("ORRERY_WORKLOAD", "web"),
        ("ORRERY_INSTANCE", program.id.as_str()),
        ("ORRERY_NODE", "killed"),
    ] {
        assert_eq!(env.get(name), Some(&value), "{name}");
    }
    assert!(env.contains_key("PATH"));
    // PWD, OLDPWD, SHLVL and _ are the shell's own.
    let expected = ["COLOUR", "PATH", "HOME", "LANG", "TZ", "PWD", "OLDPWD", "SHLVL", "_"];
    let strange = |name: &&&str| !expected.contains(*name) && !name.starts_with("ORRERY_");
    assert_eq!(env.keys().find(strange), None);
    assert!(!env.contains_key("ORRERY_TEST_SECRET"));
}

#[tokio::test]
async fn it_starts_in_a_folder_of_its_own_or_where_it_is_told() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let here = world.script("pwd > $T/here; exec sleep 60");
    server.assign(&here).await;
    server.until_state(&here, "Running").await;
    let work = world.instance_dir(&here.id).join("work");
    assert_eq!(
        read(world.path().join("here")).await,
        work.canonicalize().unwrap().to_str().unwrap()
    );

    let mut there = world.script("pwd > $T/there; exec sleep 60");
    let elsewhere = world.path().join("else/where");
    fs::create_dir_all(&elsewhere).unwrap();
    let elsewhere = elsewhere.to_str().unwrap();
    there.process().working_directory = Some(elsewhere.to_owned());
    server.assign(&there).await;
    assert_eq!(read(world.path().join("there")).await, elsewhere);
}

#[tokio::test]
async fn only_the_three_usual_descriptors_are_open_and_it_leads_its_group() {
    let world = World::new();
    // Careless: it stays open in everything that the agent starts.
    let leaked = fs::File::create(world.path().join("leaked")).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let (_agent, mut server) = world.agent().await;
    let program = Program::command("sleep", &["60"]);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let supervisor = stat(pid, 1);
    let open = |pid: i64| -> BTreeMap<i32, String> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(Result::unwrap);
        let target = |path| fs::read_link(path).unwrap().display().to_string();
        let number = |name: std::ffi::OsString| name.to_str().unwrap().parse().unwrap();
        entries.map(|entry| (number(entry.file_name()), target(entry.path()))).collect()
    };
    let fds = open(pid);
    assert_eq!(fds.keys().copied().collect::<Vec<_>>(), [0, 1, 2], "{fds:?}");
    assert_eq!(fds[&0], "/dev/null");
    assert!(fds[&1].starts_with("pipe:") && fds[&1] == fds[&2], "{fds:?}");
    let kept = open(supervisor);
    assert!(!kept.values().any(|target| target.ends_with("leaked")), "{kept:?}");

    assert_eq!(stat(pid, 2), pid, "it leads its process group");
    assert_eq!(stat(pid, 3), supervisor, "in the session of its supervisor");
    assert_eq!(stat(supervisor, 3), supervisor, "which is not ours");
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// A number of `/proc/<pid>/stat`, counted from the state.
fn stat(pid: i64, field: usize) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_ascii_whitespace().nth(field).unwrap().parse().unwrap()
}

/// What a program wrote, in the order of the files.
fn texts(world: &World, program: &Program) -> Vec<PathBuf> {
    let log = world.instance_dir(&program.id).join("log");
    let files = fs::read_dir(log).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut texts: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "text")).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn what_it_writes_is_kept_in_order() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("echo one; echo two >&2; echo three; printf four").restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    let [text] = texts(&world, &program).try_into().unwrap();
    assert_eq!(fs::read_to_string(text).unwrap(), "one\ntwo\nthree\nfour");
}

#[tokio::test]
async fn a_chatty_program_fills_no_disk() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    // Five megabytes and a last line, which must be the last thing kept.
    let text = "i=0; while [ $i -lt 80 ]; do head -c 65536 /dev/zero; i=$((i+1)); done; echo end";
    let program = world.script(text).restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    let texts = texts(&world, &program);
    let files: Vec<u64> = texts.iter().map(|text| fs::metadata(text).unwrap().len()).collect();
    let max = LOG_FILE_MAX_BYTES;
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|len| *len <= max) && files.iter().sum::<u64>() >= max, "{files:?}");
    let kept: Vec<u8> = texts.iter().flat_map(|text| fs::read(text).unwrap()).collect();
    assert!(kept.ends_with(b"\0end\n"));
    let log = world.instance_dir(&program.id).join("log");
    let all = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    let times = all.sum::<u64>() - files.iter().sum::<u64>();
    assert!(times < 1000, "one line needs no more times than this: {times}");
}

#[tokio::test]
async fn a_program_that_closes_its_output_goes_on() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exec >&- 2>&-; echo $$ > $T/closed; exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    assert_eq!(read(world.path().join("closed")).await, pid.to_string());
    wait_for("the log", || (!texts(&world, &program).is_empty()).then_some(())).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

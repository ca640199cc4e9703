//! What a program finds when it starts.
use crate::world::{World, read, wait_for};
use std::{collections::BTreeMap, fs};

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
    there.process().working_directory = Some("/usr".into());
    server.assign(&there).await;
    assert_eq!(read(world.path().join("there")).await, "/usr");
}

#[tokio::test]
async fn only_the_three_usual_descriptors_are_open_and_it_leads_its_group() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "ls -l /proc/$$/fd > $T/fds.tmp; mv $T/fds.tmp $T/fds; \
                cut -d' ' -f1,5,6 /proc/$$/stat > $T/ids; exec sleep 60";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap().to_string();
    let listing = read(world.path().join("fds")).await;
    let open: Vec<&str> = listing.lines().filter(|line| line.contains("->")).collect();
    assert_eq!(open.len(), 3, "{listing}");
    assert!(open[0].ends_with("0 -> /dev/null"), "{listing}");
    let ids = read(world.path().join("ids")).await;
    let ids: Vec<&str> = ids.split(' ').collect();
    assert_eq!(ids[..2], [&pid, &pid], "its own process group");
    assert_ne!(ids[2], rustix_session(), "not our session");
}

fn rustix_session() -> String {
    rustix::process::getsid(None).unwrap().as_raw_nonzero().to_string()
}

#[tokio::test]
async fn what_it_writes_is_kept_in_order() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("echo one; echo two >&2; echo three; printf four").restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    let log = world.instance_dir(&program.id).join("log");
    let kept = fs::read_to_string(log.join(orrery_agent::supervisor::LOG_CURRENT)).unwrap();
    assert_eq!(kept, "one\ntwo\nthree\nfour");
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
    let log = world.instance_dir(&program.id).join("log");
    let files: Vec<u64> =
        fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    let max = orrery_agent::supervisor::LOG_FILE_MAX_BYTES;
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|len| *len <= max) && files.iter().sum::<u64>() >= max, "{files:?}");
    let kept = fs::read(log.join(orrery_agent::supervisor::LOG_CURRENT)).unwrap();
    assert!(kept.ends_with(b"\0end\n"));
}

#[tokio::test]
async fn a_program_that_closes_its_output_goes_on() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("exec >&- 2>&-; echo $$ > $T/closed; exec sleep 60");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    assert_eq!(read(world.path().join("closed")).await, pid.to_string());
    wait_for("the log", || {
        world.instance_dir(&program.id).join("log/current").exists().then_some(())
    })
    .await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

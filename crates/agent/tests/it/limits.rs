//! Users, limits and control groups of processes.
use crate::world::{World, read};
use orrery_agent::SupervisorCommand;
use orrery_proto::apps::v1::{ProcessLimits, ResourceAmounts, Resources};
use std::fs;

#[tokio::test]
async fn a_process_has_its_limits() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program = world.script("ulimit -n >> $T/files; ulimit -c >> $T/core; exec sleep 60");
    let limits =
        ProcessLimits { open_files: Some(64), core_mib: Some(0), ..ProcessLimits::default() };
    program.process().limits = Some(limits);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    assert_eq!(read(world.path().join("files")).await, "64");
    assert_eq!(read(world.path().join("core")).await, "0");
    let stat = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(stat.starts_with("sleep"), "the stage became the program: {stat:?}");
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// Only root may become somebody else; elsewhere the refusal is what people have to see.
#[tokio::test]
async fn a_process_runs_as_its_user() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program = world.script("id -u > out; id -g >> out; cat out; exec sleep 60");
    program.process().user = Some("nobody:65534".into());
    server.assign(&program).await;
    if rustix::process::geteuid().is_root() {
        server.until_state(&program, "Running").await;
        let out = world.instance_dir(&program.id).join("work/out");
        let text = crate::world::wait_for("two lines", || {
            fs::read_to_string(&out).ok().filter(|text| text.lines().count() == 2)
        });
        assert_eq!(text.await, "65534\n65534\n");
    } else {
        let status = server.until_state(&program, "Pending/StartingFailed").await;
        assert!(status.message.contains("nobody"), "{}", status.message);
    }
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;

    let mut stranger = world.script("true");
    stranger.process().user = Some("no-such-user".into());
    server.assign(&stranger).await;
    let status = server.until_state(&stranger, "Pending/StartingFailed").await;
    let expect = "this node has no user \"no-such-user\"";
    assert!(status.message.starts_with(expect), "{}", status.message);
}

/// As after a login: with every group that lists the user. The supervisor sees a list of groups of the
/// test's own.
#[tokio::test]
async fn a_process_has_all_groups_of_its_user() {
    if !rustix::process::geteuid().is_root() {
        // Only root may become somebody else; the refusal is tested above.
        return;
    }
    let world = World::new();
    let groups = world.path().join("group");
    fs::write(&groups, "nogroup:x:65534:\ntapes:x:4242:backup,nobody\nother:x:4343:backup\n")
        .unwrap();
    let (_agent, mut server) = world
        .agent_with(|config| {
            let (harness, groups) = (config.supervisor.program.display(), groups.display());
            let script =
                format!("mount --bind {groups} /etc/group && exec {harness} supervisor \"$0\"");
            let words = ["--mount", "/bin/sh", "-c", &script].map(Into::into);
            config.supervisor =
                SupervisorCommand { program: "/usr/bin/unshare".into(), args: words.into() };
        })
        .await;
    let mut program = world.script("id -G > out; echo $HOME $USER >> out; exec sleep 60");
    program.process().user = Some("nobody".into());
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    let out = world.instance_dir(&program.id).join("work/out");
    let text = crate::world::wait_for("two lines", || {
        fs::read_to_string(&out).ok().filter(|text| text.lines().count() == 2)
    });
    assert_eq!(text.await, "65534 4242\n/nonexistent nobody\n");
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// Where the system has control groups that we may use, the limit holds; where not, it is said.
#[tokio::test]
async fn a_memory_limit_holds_or_is_said_not_to() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut program =
        world.script("cat /proc/self/cgroup > $T/groups; echo done > $T/done; exec sleep 60");
    let limits = ResourceAmounts { memory_mib: Some(64), ..ResourceAmounts::default() };
    program.spec.resources = Some(Resources { requests: None, limits: Some(limits) });
    server.assign(&program).await;
    let status = server.until_state(&program, "Running").await;
    read(world.path().join("done")).await;
    let groups = fs::read_to_string(world.path().join("groups")).unwrap();
    let joined = groups.contains(&format!("/orrery/{}", program.id));
    let said = status.message.contains("its memory limit is not enforced");
    assert!(joined != said, "either it is in its group or it is said: {groups} {}", status.message);
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
    for hierarchy in ["", "memory"] {
        let folder = format!("/sys/fs/cgroup/{hierarchy}/orrery/{}", program.id);
        assert!(!fs::exists(&folder).unwrap(), "{folder} is left");
    }
}

//! Agents whose data folder is lost while what they started runs on.
use crate::world::{Box1, Program, World, exists, kill, read, read_lines, wait_for, wait_gone};
use orrery_agent::Error;
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{LogRequest, server_message::Message};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{collections::BTreeMap, fs};

/// Notes each start and each clean end, and runs until it is asked to stop by the signal.
fn script(world: &World, signal: &str) -> Program {
    world.script(&format!(
        "trap 'echo clean >> $T/clean; exit 0' {signal}; echo $$ >> $T/starts; \
         while :; do sleep 0.01; done"
    ))
}

fn starts(world: &World) -> usize {
    fs::read_to_string(world.path().join("starts")).unwrap_or_default().lines().count()
}

fn lose(world: &World) {
    fs::remove_dir_all(world.data_dir()).unwrap();
}

/// An agent starts the program, and is killed with all that it knew.
async fn ran_before(world: &World, program: &Program) -> WorkloadInstanceStatus {
    let (agent, mut server) = world.killable_agent().await;
    server.assign(program).await;
    let status = server.until_state(program, "Running").await;
    read_lines(world.path().join("starts"), 1).await;
    agent.kill().await;
    lose(world);
    status
}

pub fn supervisor(pid: i64) -> i64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn environment(pid: i64) -> BTreeMap<String, String> {
    let text = String::from_utf8(fs::read(format!("/proc/{pid}/environ")).unwrap()).unwrap();
    let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn is_found(status: &WorkloadInstanceStatus) -> bool {
    status.state == "Running" && status.message.contains("found running without a record")
}

/// proves: AGT-14, AGT-15
#[tokio::test]
async fn a_program_is_adopted_by_an_agent_that_has_lost_its_records() {
    let world = World::new();
    let program = script(&world, "TERM");
    let before = ran_before(&world, &program).await;

    let (agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&program]).await;
    let after = server.until(&program, "adopted", is_found).await;
    assert_eq!((after.pid, after.restarts), (before.pid, 0));
    agent.kill().await;
    // The next one has records again, and ends are seen as ever.
    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&program]).await;
    server.until(&program, "still the same", is_found).await;
    kill(before.pid.unwrap(), Signal::KILL);
    let again = |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
    let status = server.until(&program, "started again", again).await;
    assert_eq!((status.exit_signal, status.message.as_str()), (Some(9), ""));
    read_lines(world.path().join("starts"), 2).await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
}

/// Its output is kept again from then on, and its end is told with its code.
///
/// proves: AGT-15
#[tokio::test]
async fn an_adopted_job_is_not_done_twice() {
    let world = World::new();
    let text =
        "echo $$ >> $T/starts; while ! test -e $T/go; do sleep 0.01; done; echo done; exit 5";
    let job = world.script(text).restart("never");
    ran_before(&world, &job).await;

    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&job]).await;
    server.until(&job, "adopted", is_found).await;
    fs::write(world.path().join("go"), "").unwrap();
    let status = server.until_state(&job, "Failed/ExecFailed").await;
    assert_eq!((status.exit_code, starts(&world)), (Some(5), 1));
    let (stream, id) = ("s".to_owned(), job.id.clone());
    let request = LogRequest { stream, id, credit: 10, ..LogRequest::default() };
    server.send(vec![Some(Message::Log(request))]).await;
    server.until_logged("ended", |server| server.ended.contains_key("s")).await;
    assert_eq!(server.output["s"], "done\n");
}

/// proves: AGT-14
#[tokio::test]
async fn what_changed_meanwhile_is_replaced_after_it_has_stopped() {
    let world = World::new();
    let program = script(&world, "TERM");
    let pid = ran_before(&world, &program).await.pid.unwrap();

    let (_agent, mut server) = world.killable_agent().await;
    let mut changed = program.becomes(program.clone());
    changed.process().env.insert("A".into(), "b".into());
    server.assign_set(&[&changed]).await;
    let other =
        move |status: &WorkloadInstanceStatus| status.state == "Running" && status.pid != Some(pid);
    server.until(&changed, "replaced", other).await;
    assert!(!exists(pid));
    assert_eq!(read(world.path().join("clean")).await, "clean");
    read_lines(world.path().join("starts"), 2).await;
    server.assign_set(&[]).await;
    server.until_state(&changed, "Removed").await;
}

/// The way it stops is not the usual one, and nobody says it any more.
///
/// proves: AGT-14
#[tokio::test]
async fn what_is_not_wanted_any_more_is_stopped_its_own_way() {
    let world = World::new();
    let mut program = script(&world, "INT").grace(60);
    program.spec.stop_signal = Some("SIGINT".into());
    let pid = ran_before(&world, &program).await.pid.unwrap();

    let (_agent, mut server) = world.killable_agent().await;
    let held = |status: &WorkloadInstanceStatus| {
        is_found(status) && status.message.ends_with("waiting for the server")
    };
    server.until(&program, "left running until the server speaks", held).await;
    server.assign_set(&[]).await;
    let asked = |status: &WorkloadInstanceStatus| {
        status.state == "Removed" || status.message.contains("asked with SIGINT, killed after 60 s")
    };
    server.until(&program, "asked its own way", asked).await;
    server.until_state(&program, "Removed").await;
    assert!(!exists(pid));
    assert_eq!((read(world.path().join("clean")).await.as_str(), starts(&world)), ("clean", 1));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

/// A data folder that was put back from a backup knows of an earlier run only. Once as another folder,
/// once written over the one that is there.
///
/// proves: AGT-15
#[tokio::test]
async fn an_older_record_is_not_taken_for_the_truth() {
    for over in [false, true] {
        let world = World::new();
        let (agent, mut server) = world.killable_agent().await;
        let program = script(&world, "TERM");
        server.assign(&program).await;
        let first = server.until_state(&program, "Running").await.pid.unwrap();
        read_lines(world.path().join("starts"), 1).await;
        let backup = world.path().join("backup");
        copy(&world.data_dir(), &backup);
        kill(first, Signal::KILL);
        let again =
            |status: &WorkloadInstanceStatus| status.state == "Running" && status.restarts == 1;
        let second = server.until(&program, "started again", again).await.pid.unwrap();
        read_lines(world.path().join("starts"), 2).await;
        agent.kill().await;
        if !over {
            lose(&world);
            fs::create_dir(world.data_dir()).unwrap();
        }
        copy(&backup.join("."), &world.data_dir());

        let (_agent, mut server) = world.killable_agent().await;
        server.assign_set(&[&program]).await;
        let status = server.until(&program, "adopted", is_found).await;
        assert_eq!((status.pid, status.restarts, starts(&world)), (Some(second), 1, 2));
        server.assign_set(&[]).await;
        server.until_state(&program, "Removed").await;
        assert!(!exists(second));
    }
}

/// proves: AGT-15
#[tokio::test]
async fn what_nobody_supervises_any_more_is_ended_before_it_is_started_again() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let text = "setsid sleep 60 & echo $! > $T/far; echo $$ >> $T/starts; exec sleep 60";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read_lines(world.path().join("starts"), 1).await;
    let far: i64 = read(world.path().join("far")).await.parse().unwrap();
    let of_it = supervisor(pid);
    agent.kill().await;
    kill(of_it, Signal::KILL);
    wait_gone(of_it).await;
    lose(&world);
    assert!(exists(pid) && exists(far));

    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&program]).await;
    let other =
        move |status: &WorkloadInstanceStatus| status.state == "Running" && status.pid != Some(pid);
    server.until(&program, "started again", other).await;
    assert!(!exists(pid) && !exists(far));
    read_lines(world.path().join("starts"), 2).await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
}

/// Two runs at once, as agents of earlier versions began them: the one that the records name stays.
///
/// proves: AGT-15
#[tokio::test]
async fn of_two_runs_at_once_one_is_left() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = script(&world, "TERM");
    server.assign(&program).await;
    let first = server.until_state(&program, "Running").await.pid.unwrap();
    read_lines(world.path().join("starts"), 1).await;
    agent.kill().await;
    let folder = world.instance_dir(&program.id);
    let launch = fs::read_to_string(folder.join("launch.json")).unwrap();
    let (_, run) = launch.split_once("\"run\": \"").unwrap();
    let (run, second_run) = (&run[..36], uuid::Uuid::new_v4().to_string());
    fs::write(folder.join("launch.json"), launch.replace(run, &second_run)).unwrap();
    let mark = environment(supervisor(first)).remove("ORRERY_SUPERVISED").unwrap();
    let mut second = Command::new(env!("CARGO_BIN_EXE_agent-harness"));
    second.arg("supervisor").arg(&folder).current_dir(&folder).env_clear();
    second.env("ORRERY_SUPERVISED", mark.replace(run, &second_run)).stdin(Stdio::null());
    let mut second = second.stdout(Stdio::null()).spawn().unwrap();
    let pids = read_lines(world.path().join("starts"), 2).await;
    // Until then the records name the first one.
    wait_for("a record of the second run", || {
        let record = fs::read_to_string(folder.join("run.json")).unwrap();
        (record.contains(&second_run) && record.contains(&pids[1])).then_some(())
    })
    .await;

    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&program]).await;
    let status = server.until_state(&program, "Running").await;
    assert_eq!(status.pid.unwrap().to_string(), pids[1]);
    assert!(!exists(first));
    assert_eq!((read(world.path().join("clean")).await.as_str(), starts(&world)), ("clean", 2));
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    second.wait().unwrap();
}

/// proves: AGT-15
#[tokio::test]
async fn another_agent_of_the_same_name_touches_nothing() {
    let (one, other) = (World::new(), World::new());
    let (agent, mut server) = one.killable_agent().await;
    let program = script(&one, "TERM");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read_lines(one.path().join("starts"), 1).await;
    agent.kill().await;

    let (_agent, mut stranger) = other.killable_agent().await;
    let own = script(&other, "TERM");
    stranger.assign_set(&[&own]).await;
    stranger.until_state(&own, "Running").await;
    assert!(exists(pid) && !stranger.states.contains_key(&program.id));
    stranger.assign_set(&[]).await;
    stranger.until_state(&own, "Removed").await;
    assert!(exists(pid) && !one.path().join("clean").exists());
}

/// Processes with everything that a program of this agent has, but who they are.
struct Pretenders(Vec<Child>);

impl Pretenders {
    fn new(pid: i64, folder: &Path) -> Self {
        let words = ["-c", "sleep 60; exit", "supervisor", folder.to_str().unwrap()];
        let marks = environment(pid).into_iter().map(|(name, value)| format!("{name}={value}"));
        let mut program = Command::new("setsid");
        program.args(["/bin/sh", "-c", "env \"$@\" sleep 60; exit", "leader"]).args(marks);
        let mut stranger = Command::new("setpriv");
        let ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "setsid", "/bin/sh"];
        stranger.args(ids).args(words).env_clear().envs(environment(supervisor(pid)));
        let mut nobody = Command::new("setsid");
        nobody.arg("/bin/sh").args(words);
        let all = [program, stranger, nobody];
        Self(all.map(|mut one| one.current_dir("/").spawn().unwrap()).into())
    }

    fn live(&mut self) -> Vec<bool> {
        self.0.iter_mut().map(|child| child.try_wait().unwrap().is_none()).collect()
    }
}

impl Drop for Pretenders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let group = rustix::process::Pid::from_child(child);
            // Each has made a group of its own; if it has not come to that yet, it is alone.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// proves: AGT-15
#[tokio::test]
async fn who_only_pretends_is_neither_adopted_nor_stopped() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let program = script(&world, "TERM");
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    read_lines(world.path().join("starts"), 1).await;
    let of_it = supervisor(pid);
    let mut pretenders = Pretenders::new(pid, &world.instance_dir(&program.id));
    agent.kill().await;
    kill(of_it, Signal::TERM);
    wait_gone(of_it).await;
    lose(&world);

    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[&program]).await;
    let other =
        move |status: &WorkloadInstanceStatus| status.state == "Running" && status.pid != Some(pid);
    let status = server.until(&program, "started", other).await;
    assert_eq!((status.message.as_str(), status.restarts), ("", 0));
    read_lines(world.path().join("starts"), 2).await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(pretenders.live(), [true, true, true]);
}

#[tokio::test]
async fn an_agent_whose_folder_was_deleted_below_it_is_still_the_only_one() {
    let world = World::new();
    let run_dir = world.path().join("run");
    let beside = |config: &mut orrery_agent::AgentConfig| config.run_dir = run_dir.clone();
    let (first, mut server) = world.agent_with(beside).await;
    // Who answers has its locks, and begins nothing any more that fails without the folder.
    let request = LogRequest { stream: "s".into(), id: "absent".into(), ..LogRequest::default() };
    server.send(vec![Some(Message::Log(request))]).await;
    server.until_logged("answered", |server| server.ended.contains_key("s")).await;
    let (first_try, _silent) = world.lonely_agent(beside);
    assert!(matches!(first_try.ended().await, Err(Error::InUse { .. })));
    lose(&world);
    let (second, _silent) = world.lonely_agent(beside);
    let refused = second.ended().await.unwrap_err().to_string();
    assert!(refused.starts_with("another agent (pid "), "{refused}");
    drop(first);
}

fn container(podman: &Box1) -> Program {
    let text = "trap 'echo clean >> /test/clean; exit 0' INT; echo up >> /test/starts; \
                while :; do sleep 0.1; done";
    let mut spec = podman.shell(text);
    spec.mounts = vec![orrery_proto::apps::v1::HostMount {
        source: Some(podman.world.path().display().to_string()),
        target: Some("/test".into()),
        read_only: Some(false),
    }];
    let mut program = Program::command("", &[]).contained(spec).grace(30);
    program.spec.stop_signal = Some("SIGINT".into());
    program
}

/// proves: AGT-14, AGT-15
#[tokio::test]
async fn a_container_is_adopted_by_an_agent_that_has_lost_its_records() {
    let podman = Box1::new();
    let (agent, mut server) = podman.killable_agent().await;
    let program = container(&podman);
    server.assign(&program).await;
    let before = server.until_state(&program, "Running").await;
    read_lines(podman.world.path().join("starts"), 1).await;
    agent.kill().await;
    lose(&podman.world);

    let (agent, mut server) = podman.killable_agent().await;
    server.assign_set(&[&program]).await;
    let after = server.until(&program, "adopted", is_found).await;
    assert_eq!((after.pid, &after.container), (before.pid, &before.container));
    assert_eq!((podman.containers().len(), starts(&podman.world)), (1, 1));
    agent.kill().await;
    lose(&podman.world);
    // Nobody wants it any more, and nobody says how it stops.
    let (_agent, mut server) = podman.killable_agent().await;
    server.until(&program, "found again", is_found).await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(read(podman.world.path().join("clean")).await, "clean");
    assert!(podman.containers().is_empty() && !exists(before.pid.unwrap()));
}

/// Where podman answers, also what has ended is found, and goes when nobody wants it.
#[tokio::test]
async fn a_container_that_ended_is_found_by_its_labels() {
    let podman = Box1::new();
    let run_dir = podman.world.path().join("run");
    let (agent, mut server) = podman.agent_in(run_dir.clone()).await;
    let program = container(&podman);
    server.assign(&program).await;
    let running = server.until_state(&program, "Running").await;
    agent.stop().await.unwrap();
    let (ended, said) = podman.podman(&["kill", &running.container]);
    assert!(ended, "{said}");
    wait_gone(running.pid.unwrap()).await;
    lose(&podman.world);

    let (_agent, mut server) = podman.agent_in(run_dir).await;
    server.until_state(&program, "Pending/WaitingToStart").await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert_eq!(podman.containers(), Vec::<String>::new());
}

/// What is found by its name only is not thrown away either, unless it has ended; and what somebody else
/// has made is left to them.
#[tokio::test]
async fn a_container_of_somebody_else_is_left_to_them() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let theirs = container(&podman);
    let name = format!("orrery-{}", theirs.id);
    let made_for = ["--label", "dev.orrery.node=node-1", "--label", "dev.orrery.data-folder=/else"];
    let made = ["run", "--detach", "--network", "none", "--name", &name];
    let words = ["localhost/box:1", "/bin/sleep", "1000"];
    let (made, said) = podman.podman(&[&made[..], &made_for, &words].concat());
    assert!(made, "{said}");
    server.assign(&theirs).await;
    let status = server.until_state(&theirs, "Pending/StartingFailed").await;
    let expect = "made by the agent of node node-1 with data folder /else; if that agent is gone, \
                  remove the container with podman rm";
    assert!(status.message.contains(expect), "{}", status.message);
    let (_, state) = podman.podman(&["inspect", "--format", "{{.State.Status}}", &name]);
    assert_eq!(state.trim(), "running");
}

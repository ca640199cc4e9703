//! Files that the server hands out.
use crate::world::{Box1, Program, World, read, read_lines};
use orrery_proto::apps::v1::{File, WorkloadInstanceStatus, file::Source};
use orrery_proto::fleet::v1::{FileContent, InstanceFiles, LogRequest, server_message::Message};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn with_file(mut program: Program, path: &str, revision: &str) -> Program {
    let source = Some(Source::Text("unused here".into()));
    program.spec.files = vec![File { path: Some(path.into()), source, mode: None }];
    program.spec.files_revision = Some(revision.into());
    program
}

fn content(program: &Program, path: &str, revision: &str, content: &str) -> InstanceFiles {
    let file = FileContent { path: path.into(), mode: 0o600, content: content.into() };
    let id = program.id.clone();
    InstanceFiles { id, revision: revision.into(), files: vec![file], problem: String::new() }
}

/// proves: AGT-15
#[tokio::test]
async fn a_process_starts_when_its_files_are_there_and_finds_them() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    let script = "cat $ORRERY_FILES/deep/key >> $T/seen; exec sleep 60";
    let program = with_file(world.script(script), "deep/key", "r1");
    server.assign(&program).await;
    let waiting = server.until_state(&program, "Pending/WaitingToStart").await;
    assert_eq!(waiting.message, "waiting for the server to hand out its files");
    let problem = "there is no secret \"db\"";
    let without = InstanceFiles {
        files: Vec::new(),
        problem: problem.into(),
        ..content(&program, "deep/key", "r1", "")
    };
    server.hand_out(without).await;
    server.until(&program, "told why", |status| status.message == problem).await;
    server.hand_out(content(&program, "deep/key", "r0", "of another revision\n")).await;
    server.hand_out(content(&program, "deep/key", "r1", "one\n")).await;
    server.until_state(&program, "Running").await;
    assert_eq!(read(world.path().join("seen")).await, "one");
    let folder = world.run_dir().join("files").join(&program.id);
    let mode = std::fs::metadata(folder.join("r1/deep/key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = std::fs::read(world.instance_dir(&program.id).join("assignment")).unwrap();
    assert!(!kept.windows(3).any(|bytes| bytes == b"one"), "what is secret is not kept on disk");

    // An agent without a server starts it again with the files that are there.
    agent.kill().await;
    let (_agent, mut server) = world.killable_agent().await;
    server.until_state(&program, "Running").await;
    let next = with_file(program.becomes(world.script(script)), "deep/key", "r2");
    server.assign(&next).await;
    server.hand_out(content(&next, "deep/key", "r2", "two\n")).await;
    let replaced = |status: &WorkloadInstanceStatus| {
        status.state == "Running" && status.observed_generation == 2
    };
    server.until(&next, "replaced", replaced).await;
    assert_eq!(read_lines(world.path().join("seen"), 2).await, ["one", "two"]);
    assert!(!folder.join("r1").exists());
    server.unassign(&next).await;
    server.until_state(&next, "Removed").await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_container_finds_its_files() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let text = "cat $ORRERY_FILES/key /etc/app.conf; while :; do sleep 1; done";
    let mut program =
        with_file(Program::command("", &[]).contained(podman.shell(text)), "key", "r1");
    let source = Some(Source::Text("unused here".into()));
    program.spec.files.push(File { path: Some("/etc/app.conf".into()), source, mode: None });
    let program = program.grace(1);
    server.assign(&program).await;
    let mut files = content(&program, "key", "r1", "one\n");
    let absolute =
        FileContent { path: "/etc/app.conf".into(), mode: 0o644, content: "two\n".into() };
    files.files.push(absolute);
    server.hand_out(files).await;
    server.until_state(&program, "Running").await;
    let request = orrery_proto::fleet::v1::LogRequest {
        stream: "s".into(),
        id: program.id.clone(),
        follow: true,
        credit: 10,
        ..LogRequest::default()
    };
    let message = orrery_proto::fleet::v1::server_message::Message::Log(request);
    server.send(vec![Some(message)]).await;
    server.until_logged("both", |s| s.output.get("s").is_some_and(|o| o == "one\ntwo\n")).await;
    server.unassign(&program).await;
    server.until_state(&program, "Removed").await;
}

/// Users of containers are those of their image.
#[tokio::test]
async fn a_container_reads_its_files_as_the_user_of_its_image() {
    let podman = Box1::new();
    let (_agent, mut server) = podman.agent().await;
    let as_user = |user: &str| {
        let mut spec = podman.shell("cat $ORRERY_FILES/key && exec sleep 1000");
        spec.user = Some(user.into());
        with_file(Program::command("", &[]).contained(spec).restart("never"), "key", "r1")
    };
    let program = as_user("web");
    server.assign(&program).await;
    server.hand_out(content(&program, "key", "r1", "one\n")).await;
    if !rustix::process::geteuid().is_root() {
        let refused = server.until_state(&program, "Pending/StartingFailed").await;
        assert!(refused.message.contains("only an agent that runs as root"), "{}", refused.message);
        return;
    }
    server.until_state(&program, "Running").await;
    let request = LogRequest {
        stream: "s".into(),
        id: program.id.clone(),
        credit: 10,
        follow: true,
        ..<_>::default()
    };
    server.send(vec![Some(Message::Log(request))]).await;
    server.until_logged("its file", |server| server.output.contains_key("s")).await;
    assert_eq!(server.output["s"], "one\n");
    let file = world_file(&podman, &program);
    let owner = std::fs::metadata(&file).unwrap();
    assert_eq!((owner.uid(), owner.gid(), owner.mode() & 0o777), (1234, 1235, 0o600));

    let ghost = as_user("ghost");
    server.assign(&ghost).await;
    server.hand_out(content(&ghost, "key", "r1", "one\n")).await;
    let refused = server.until_state(&ghost, "Pending/StartingFailed").await;
    assert!(refused.message.contains("ghost"), "{}", refused.message);
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
    assert!(podman.containers().is_empty(), "what did not start left nothing");
}

fn world_file(podman: &Box1, program: &Program) -> std::path::PathBuf {
    podman.world.run_dir().join("files").join(&program.id).join("r1/key")
}

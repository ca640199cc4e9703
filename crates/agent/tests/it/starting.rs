//! Programs that cannot start, and the words for it.
use crate::world::{Program, Server, World, read};
use orrery_agent::SupervisorCommand;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn place(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn check(server: &mut Server, program: &Program, expect: &str) {
    server.assign(program).await;
    let status = server.until_state(program, "Pending/StartingFailed").await;
    assert!(status.message.contains(expect), "{}, expected {expect}", status.message);
    assert_eq!((status.pid, status.exit_code), (None, None));
}

#[tokio::test]
async fn each_cause_has_its_words() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    place(&world.path().join("data.txt"), "text", 0o644);
    place(&world.path().join("plain"), "echo no first line", 0o755);
    place(&world.path().join("orphan"), "#!/no/such/interpreter\n", 0o755);
    let at = |name: &str| world.path().join(name).to_str().unwrap().to_owned();
    for (command, expect) in [
        ("no-such-program-anywhere".to_owned(), "was not found along PATH"),
        (at("absent"), "absent: no such file or folder"),
        (at("data.txt"), "data.txt: it is not executable"),
        (at(""), "it is a folder"),
        (at("plain"), "plain: not a program (a script needs a first line like #!/bin/sh)"),
        (at("orphan"), "orphan: the interpreter that it names was not found"),
    ] {
        check(&mut server, &Program::command(&command, &[]), expect).await;
    }
    for (directory, expect) in
        [(at("nowhere"), "nowhere: no such file or folder"), (at("data.txt"), "data.txt is a file")]
    {
        let mut program = world.script("true");
        program.process().working_directory = Some(directory);
        check(&mut server, &program, expect).await;
    }
    let mut foreign = world.script("true");
    foreign.spec.runtime = None;
    check(&mut server, &foreign, "this agent has no runtime for it").await;
    check(&mut server, &world.script("true").restart("perhaps"), "\"perhaps\"").await;
}

#[tokio::test]
async fn it_is_tried_again_until_the_cause_is_gone() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let late = world.path().join("late");
    let program = Program::command(late.to_str().unwrap(), &["60"]);
    check(&mut server, &program, "trying again in").await;
    place(&late, "#!/bin/sh\nexec sleep \"$@\"\n", 0o755);
    let status = server.until_state(&program, "Running").await;
    assert_eq!(status.restarts, 0, "it never ran before");
}

#[tokio::test]
async fn never_means_that_it_is_not_tried_again() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = Program::command("no-such-program-anywhere", &[]).restart("never");
    check(&mut server, &program, "not started again (restart policy never)").await;
}

#[tokio::test]
async fn the_command_is_looked_up_along_the_path_it_is_given() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let tools = world.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let note = world.path().join("note");
    place(&tools.join("my-tool"), &format!("#!/bin/sh\necho $0 > {}\n", note.display()), 0o755);
    let mut program = Program::command("my-tool", &[]).restart("never");
    program.process().env = [("PATH".to_owned(), format!("{}:/bin", tools.display()))].into();
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    assert_eq!(read(note).await, tools.join("my-tool").to_str().unwrap());
}

#[tokio::test]
async fn a_supervisor_that_is_none_is_named() {
    let world = World::new();
    for (supervisor, expect) in [
        ("/no/such/orrery", "cannot start the supervisor /no/such/orrery"),
        ("/bin/false", "its supervisor ended without starting it"),
    ] {
        let (agent, mut server) = world
            .agent_with(|config| {
                config.supervisor =
                    SupervisorCommand { program: supervisor.into(), args: Vec::new() };
            })
            .await;
        let program = world.script("true");
        check(&mut server, &program, expect).await;
        agent.stop().await.unwrap();
    }
}

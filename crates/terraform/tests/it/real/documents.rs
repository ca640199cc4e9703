//! The tutorial, as it is written.
use super::Terraform;
use super::harness::document;
use orrery_testkit::agent::FakeAgent;

/// The blocks of a language, in order.
fn blocks(language: &str) -> Vec<String> {
    let (document, fence) = (document(), format!("```{language}\n"));
    let begun = document.split(&fence).skip(1);
    begun.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Runs what it is told to run, and says so.
async fn work(mut agent: FakeAgent) {
    loop {
        let copy = agent.assignment().await;
        let state = if copy.removing { "Removed" } else { "Running" };
        agent.report(&copy.id, state, copy.generation).await;
    }
}

/// proves: HUB-19
#[tokio::test]
async fn the_tutorial_works_as_written() {
    let terraform = Terraform::start().await;
    let agent = FakeAgent::connect(&terraform.world.endpoint(None), "local").await.unwrap();
    let hcl = blocks("hcl");
    let [main, data, classic, moved] = &hcl[..] else { panic!("{} blocks", hcl.len()) };
    terraform.file("main.tf", main);
    let shell = blocks("sh");
    let lines = shell[1].lines().filter(|line| line.starts_with("terraform "));
    let commands: Vec<&str> =
        lines.map(|line| line.split('#').next().unwrap_or_default()).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    let following = async {
        for command in commands {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let said = terraform.run(&words).await.well();
            assert!(words[0] != "apply" || said.contains("state = \"Running\""), "{said}");
        }
        terraform.file("main.tf", &format!("{main}{data}"));
        let said = terraform.run(&["apply", "-auto-approve"]).await.well();
        assert!(said.contains("runtimes = toset([") && said.contains("\"process\""), "{said}");
        let words: Vec<&str> = shell[2].split_whitespace().skip(1).collect();
        terraform.run(&["state", "rm", "orrery_workload.hello"]).await.well();
        terraform.run(&words).await.well();

        let (before, _) = main.split_once("resource \"orrery_project\"").expect("resources");
        terraform.file("main.tf", &format!("{before}{classic}"));
        terraform.run(&["apply", "-auto-approve"]).await.well();
        let newer = "resource \"orrery_workload\" \"hello\" {\n  metadata = { name = \"hello\" }\n  spec = {\n    process = { command = \"sleep\", args = [\"infinity\"] }\n    placement = { nodes = [\"local\"] }\n  }\n  wait_for_ready = false\n}\n";
        terraform.file("main.tf", &format!("{before}{newer}{moved}"));
        let said = terraform.run(&["apply", "-auto-approve"]).await.well();
        assert!(said.contains("0 added, 0 changed, 0 destroyed"), "{said}");
    };
    tokio::select! {
        () = following => {}
        () = work(agent) => panic!("agents work for ever"),
    }
}

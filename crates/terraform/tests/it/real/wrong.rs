//! What goes wrong, and what is said of it.
use super::Terraform;
use crate::server::{get, set};
use serde_json::json;

fn web(runtime: &str) -> String {
    format!(
        "resource \"orrery_workload\" \"web\" {{\n  metadata = {{ name = \"web\" }}\n  spec = {{\n    process = {{ command = \"sleep\" }}\n    {runtime}\n    placement = {{ nodes = [\"n1\"] }}\n  }}\n}}\n"
    )
}

/// proves: HUB-19
/// proves: HUB-20
#[tokio::test]
async fn wrong_configurations_are_refused_at_their_line() {
    let terraform = Terraform::start().await;
    terraform.write(&web("podman = { image = \"x\" }"));
    let words = ["main.tf line 5", "\"podman\" cannot be set beside \"process\""];
    terraform.run(&["validate"]).await.refused(&words);
    terraform.write(&web("stop_grace_seconds = 4000"));
    terraform.run(&["validate"]).await.refused(&["main.tf line 5", "spec.stopGraceSeconds"]);
    terraform.write(&web("").replace("    process = { command = \"sleep\" }\n", ""));
    terraform
        .run(&["validate"])
        .await
        .refused(&["main.tf line 3", "set exactly one of process, podman"]);
    let slow = web("").replace("\n}\n", "\n  timeouts = { create = \"soon\" }\n}\n");
    terraform.write(&slow);
    terraform.run(&["validate"]).await.refused(&["\"soon\" is no duration"]);
}

/// proves: HUB-19
#[tokio::test]
async fn a_deadline_ends_a_wait_and_keeps_the_state() {
    let terraform = Terraform::start().await;
    let hurried = web("").replace("\n}\n", "\n  timeouts = { create = \"1s\" }\n}\n");
    terraform.write(&hurried);
    terraform.apply().await.refused(&[
        "is not ready",
        "after 1s",
        "timeouts.create",
        "wait_for_ready = false",
    ]);
    assert!(get(&terraform.world, "Workload", "web").await.is_some());
    let state = terraform.run(&["state", "list"]).await.well();
    assert!(state.contains("orrery_workload.web"), "{state}");
    terraform.destroy().await.well();
    assert_eq!(get(&terraform.world, "Workload", "web").await, None);
}

/// A deletion waits for those who must act first, and says who they are.
///
/// proves: HUB-19
#[tokio::test]
async fn a_deletion_that_is_held_up_names_who_holds_it() {
    let terraform = Terraform::start().await;
    let class = "resource \"orrery_machine_class\" \"c\" {\n  metadata = { name = \"c\" }\n  spec = { provider = \"qemu\" }\n  timeouts = { delete = \"1s\" }\n}\n";
    terraform.write(class);
    terraform.apply().await.well();
    let held = |holders: &[&str]| json!({"metadata": {"finalizers": holders}});
    set(&terraform.world, "MachineClass", "c", held(&["test.dev/hold"]), false).await.expect("new");
    terraform.destroy().await.refused(&[
        "is not gone yet",
        "held by test.dev/hold",
        "timeouts.delete",
    ]);
    let state = terraform.run(&["state", "list"]).await.well();
    assert!(state.contains("orrery_machine_class.c"), "{state}");
    let destroying = terraform.destroy();
    let letting_go = set(&terraform.world, "MachineClass", "c", held(&[]), false);
    let (destroyed, let_go) = tokio::join!(destroying, letting_go);
    let_go.expect("it is theirs");
    destroyed.well();
    assert_eq!(get(&terraform.world, "MachineClass", "c").await, None);
}

/// proves: HUB-19
#[tokio::test]
async fn servers_that_cannot_be_reached_are_named() {
    let terraform = Terraform::start().await;
    terraform.write(&web(""));
    let provider = |words: &str| {
        format!(
            "terraform {{\n  required_providers {{\n    orrery = {{ source = \"orrery/orrery\" }}\n  }}\n}}\nprovider \"orrery\" {{\n  {words}\n}}\n"
        )
    };
    terraform.file("provider.tf", &provider("server = \"http://127.0.0.1:1\""));
    terraform.apply().await.refused(&["the server at http://127.0.0.1:1 is not available"]);
    terraform.file("provider.tf", &provider("server = \"127.0.0.1\""));
    terraform.run(&["validate"]).await.refused(&["provider.tf line 7", "is no server address"]);
    terraform.file("provider.tf", &provider("certificate = \"/x\""));
    terraform.run(&["validate"]).await.refused(&["provider.tf line 7", "needs \"key\" beside it"]);
    terraform.file("provider.tf", &provider("token_file = \"/no/such/file\""));
    terraform.plan().await.refused(&["provider.tf line 7", "/no/such/file"]);
    terraform.file("provider.tf", &provider("context = \"nowhere\""));
    terraform
        .plan()
        .await
        .refused(&["provider.tf line 7", "there is no context named \"nowhere\""]);
}

/// Secrets are kept by the server in another field than they are written in, and not shown by Terraform.
#[tokio::test]
async fn secrets_are_sensitive_and_settle() {
    let terraform = Terraform::start().await;
    let secret = |password: &str| {
        format!(
            "resource \"orrery_secret\" \"db\" {{\n  metadata = {{ name = \"db\" }}\n  spec = {{\n    string_data = {{ password = \"{password}\" }}\n    data = {{ raw = \"AQI=\" }}\n  }}\n}}\n"
        )
    };
    terraform.write(&secret("hunter2"));
    let said = terraform.apply().await.well();
    assert!(!said.contains("hunter2") && said.contains("(sensitive value)"), "{said}");
    terraform.is_settled().await;
    terraform.write(&secret("hunter3"));
    let wanted = terraform.wants().await;
    assert!(!wanted.contains("hunter"), "{wanted}");
    terraform.apply().await.well();
    terraform.is_settled().await;
    let found = get(&terraform.world, "Secret", "db").await.expect("it is there");
    assert_eq!(found["spec"]["data"]["password"], json!("aHVudGVyMw=="));
    assert_eq!(found["spec"]["data"]["raw"], json!("AQI="));
}

//! Resources of the older style, in both protocols, beside those of the newer one.
use super::Terraform;
use crate::server::get;
use serde_json::json;

const CLASSIC: &str = r#"
resource "orrery_classic_workload" "web" {
  metadata {
    name   = "web"
    labels = { tier = "front" }
  }
  spec {
    process {
      command = "sleep"
      args    = ["60"]
    }
    placement {
      nodes = ["n2", "n1"]
    }
    files {
      path = "b.txt"
      text = "two"
    }
    files {
      path = "a.txt"
      text = "one"
    }
  }
  wait_for_ready = false
}
"#;

/// The same workload in the newer style.
const NEWER: &str = r#"
resource "orrery_workload" "web" {
  metadata = { name = "web", labels = { tier = "front" } }
  spec = {
    process   = { command = "sleep", args = ["60"] }
    placement = { nodes = ["n1", "n2"] }
    files     = [{ path = "a.txt", text = "one" }, { path = "b.txt", text = "two" }]
  }
  wait_for_ready = false
}
"#;

const PROJECT: &str = r#"
resource "orrery_project" "p" {
  metadata = { name = "p" }
}
"#;

/// proves: HUB-21
#[tokio::test]
async fn both_styles_live_in_one_provider() {
    let terraform = Terraform::start().await;
    terraform.write(&format!("{CLASSIC}{PROJECT}"));
    let said = terraform.apply().await.well();
    assert!(said.contains("2 added"), "{said}");
    terraform.is_settled().await;
    let web = get(&terraform.world, "Workload", "web").await.expect("it is there");

    // What was written in the older style goes on in the newer one, as the same object.
    let moved = "moved {\n  from = orrery_classic_workload.web\n  to   = orrery_workload.web\n}\n";
    terraform.write(&format!("{NEWER}{PROJECT}{moved}"));
    let said = terraform.apply().await.well();
    assert!(said.contains("0 added, 0 changed, 0 destroyed"), "{said}");
    let same = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(same["metadata"]["uid"], web["metadata"]["uid"]);
    terraform.is_settled().await;
    terraform.destroy().await.well();
    assert_eq!(get(&terraform.world, "Workload", "web").await, None);
}

/// proves: HUB-21
#[tokio::test]
async fn the_older_protocol_has_the_older_style() {
    let mut terraform = Terraform::start().await;
    terraform.protocol = "5";
    terraform.write(PROJECT);
    terraform
        .run(&["validate"])
        .await
        .refused(&["does not support resource type \"orrery_project\""]);

    terraform.write(CLASSIC);
    terraform.apply().await.well();
    terraform.is_settled().await;
    terraform.write(&CLASSIC.replace("\"60\"", "\"61\""));
    assert!(terraform.wants().await.contains("updated in-place"));
    terraform.apply().await.well();
    let web = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(web["spec"]["process"]["args"], json!(["61"]));
    terraform.is_settled().await;

    // Blocks are found along the whole path.
    terraform.write(&CLASSIC.replace("command = \"sleep\"", "command = \"\""));
    terraform.run(&["validate"]).await.refused(&["main.tf line 9", "spec.process.command"]);
    let both = CLASSIC
        .replace("    placement {", "    podman {\n      image = \"x\"\n    }\n    placement {");
    terraform.write(&both);
    terraform.run(&["validate"]).await.refused(&["\"podman\" cannot be set beside \"process\""]);

    let looked = "data \"orrery_classic_workload\" \"web\" {\n  metadata {\n    name = \"web\"\n  }\n}\noutput \"policy\" {\n  value = data.orrery_classic_workload.web.spec.restart_policy\n}\n";
    terraform.write(&format!("{CLASSIC}{looked}"));
    let said = terraform.apply().await.well();
    assert!(said.contains("policy = \"always\""), "{said}");
    terraform.destroy().await.well();
}

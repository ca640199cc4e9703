//! The life of resources.
use super::Terraform;
use crate::server::{get, remove, set};
use serde_json::json;

const WEB: &str = r#"
resource "orrery_workload" "web" {
  metadata = {
    name   = "web"
    labels = { tier = "front", team = "blue" }
  }
  spec = {
    process   = { command = "sleep", args = ["60"], env = {} }
    placement = { nodes = ["n2", "n1"] }
    files = [
      { path = "b.txt", text = "two" },
      { path = "a.txt", text = "one", mode = "0644" },
    ]
    depends_on = [{ workload = "db" }, { workload = "cache", condition = "succeeded" }]
  }
  wait_for_ready = false
}
"#;

/// Apply, an empty plan, a change in place, another order, what others do, and the end.
///
/// proves: HUB-19
/// proves: HUB-20
#[tokio::test]
async fn a_resource_lives_from_its_first_apply_to_its_last() {
    let terraform = Terraform::start().await;
    terraform.write(WEB);
    let said = terraform.apply().await.well();
    assert!(said.contains("1 added, 0 changed"), "{said}");
    let web = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(web["spec"]["process"]["args"], json!(["60"]));
    let managers = web["metadata"]["managedFields"].as_array().expect("managers");
    assert_eq!(managers[0]["manager"], json!("terraform"), "{managers:?}");
    terraform.is_settled().await;

    // Another order says nothing in a set, nor in a list of items with keys.
    let turned = WEB.replace(r#"["n2", "n1"]"#, r#"["n1", "n2"]"#).replace(
        r#"[{ workload = "db" }, { workload = "cache", condition = "succeeded" }]"#,
        r#"[{ workload = "cache", condition = "succeeded" }, { workload = "db" }]"#,
    );
    assert_ne!(turned, WEB);
    terraform.write(&turned);
    terraform.is_settled().await;

    // A change is made in place, and touches nothing else.
    terraform.write(&WEB.replace(r#"args = ["60"]"#, r#"args = ["61"]"#));
    let wanted = terraform.wants().await;
    assert!(wanted.contains("will be updated in-place"), "{wanted}");
    terraform.apply().await.well();
    let changed = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(changed["spec"]["process"]["args"], json!(["61"]));
    assert_eq!(changed["metadata"]["uid"], web["metadata"]["uid"]);
    terraform.is_settled().await;

    // What is taken out goes, and what the server fills in comes back.
    terraform.write(&WEB.replace(", mode = \"0644\"", "").replace(", team = \"blue\"", ""));
    terraform.apply().await.well();
    let less = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(less["metadata"]["labels"], json!({"tier": "front"}));
    let modes: Vec<_> =
        less["spec"]["files"].as_array().expect("files").iter().map(|f| &f["mode"]).collect();
    assert_eq!(modes, ["0600", "0600"]);
    terraform.is_settled().await;

    let said = terraform.destroy().await.well();
    assert!(said.contains("1 destroyed"), "{said}");
    assert_eq!(get(&terraform.world, "Workload", "web").await, None);
}

/// proves: HUB-19
#[tokio::test]
async fn what_others_do_is_seen_where_it_is_ours() {
    let terraform = Terraform::start().await;
    terraform.write(WEB);
    terraform.apply().await.well();

    // Their label and their limits are theirs.
    let theirs = json!({"metadata": {"labels": {"theirs": "x"}}, "spec": {"stopSignal": "SIGINT"}});
    set(&terraform.world, "Workload", "web", theirs.clone(), false).await.expect("nobody else's");
    terraform.is_settled().await;

    // Our field in their hands is a difference, and taking it back is said to be a conflict.
    let mut ours = theirs;
    ours["spec"]["process"] = json!({"command": "true"});
    set(&terraform.world, "Workload", "web", ours.clone(), false).await.expect_err("it is ours");
    set(&terraform.world, "Workload", "web", ours, true).await.expect("by force");
    let wanted = terraform.wants().await;
    assert!(
        wanted.contains("will be updated in-place") && wanted.contains("\"true\" -> \"sleep\""),
        "{wanted}"
    );
    terraform.apply().await.refused(&[
        "conflict with",
        "force_conflicts = true",
        "spec.process.command",
    ]);
    let forced = format!(
        "{WEB}\nprovider \"orrery\" {{\n  alias = \"force\"\n  server = \"{}\"\n  force_conflicts = true\n}}\n",
        terraform.world.url
    );
    terraform
        .write(&forced.replace("  wait_for_ready", "  provider = orrery.force\n  wait_for_ready"));
    terraform.apply().await.well();
    terraform.is_settled().await;
    let web = get(&terraform.world, "Workload", "web").await.expect("it is there");
    assert_eq!(web["spec"]["process"]["command"], json!("sleep"));
    assert_eq!(web["spec"]["stopSignal"], json!("SIGINT"), "that is still theirs");
    assert_eq!(web["metadata"]["labels"]["theirs"], json!("x"));

    // One that somebody deleted is made again.
    remove(&terraform.world, "Workload", "web").await;
    let wanted = terraform.wants().await;
    assert!(wanted.contains("will be created"), "{wanted}");
}

const CLASS: &str = r#"
resource "orrery_machine_class" "small" {
  metadata = { name = "small" }
  spec = {
    provider      = "qemu"
    provider_spec = { cpus = 2, disks = ["a", "b"], nested = { on = true, none = null } }
  }
}
"#;

/// proves: HUB-19
#[tokio::test]
async fn what_cannot_be_changed_is_replaced_and_opaque_data_is_kept() {
    let terraform = Terraform::start().await;
    terraform.write(CLASS);
    terraform.apply().await.well();
    terraform.is_settled().await;
    let class = get(&terraform.world, "MachineClass", "small").await.expect("it is there");
    assert_eq!(class["spec"]["providerSpec"]["disks"], json!(["a", "b"]));
    terraform.write(&CLASS.replace("cpus = 2", "cpus = 3"));
    assert!(terraform.wants().await.contains("updated in-place"));
    terraform.apply().await.well();
    terraform.is_settled().await;
    terraform.write(&CLASS.replace("\"qemu\"", "\"process\""));
    let wanted = terraform.wants().await;
    assert!(
        wanted.contains("must be replaced") && wanted.contains("# forces replacement"),
        "{wanted}"
    );
    terraform.apply().await.well();
    let other = get(&terraform.world, "MachineClass", "small").await.expect("it is there");
    assert_ne!(other["metadata"]["uid"], class["metadata"]["uid"]);
    terraform.is_settled().await;
}

/// proves: HUB-19
#[tokio::test]
async fn what_is_there_can_be_imported_and_looked_at() {
    let terraform = Terraform::start().await;
    let spec = json!({"process": {"command": "sleep", "args": ["1"]}, "placement": {"nodes": ["n1"]}, "stopGraceSeconds": 3});
    let there = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    set(&terraform.world, "Workload", "web", there, false).await.expect("new");
    let config = r#"
resource "orrery_workload" "web" {
  metadata = { name = "web", labels = { a = "b" } }
  spec = {
    process            = { command = "sleep", args = ["1"] }
    placement          = { nodes = ["n1"] }
    stop_grace_seconds = 3
  }
  wait_for_ready = false
}
"#;
    terraform.write(config);
    terraform
        .apply()
        .await
        .refused(&["exists already", "terraform import orrery_workload.NAME default/web"]);
    terraform
        .run(&["import", "orrery_workload.web", "default/none"])
        .await
        .refused(&["There is no Workload"]);
    terraform
        .run(&["import", "orrery_workload.web", "a/b/c"])
        .await
        .refused(&["write PROJECT/NAME"]);
    terraform.run(&["import", "orrery_workload.web", "default/web"]).await.well();
    let wanted = terraform.wants().await;
    assert!(
        wanted.contains("wait_for_ready") && !wanted.contains("stop_grace_seconds"),
        "{wanted}"
    );
    terraform.apply().await.well();
    terraform.is_settled().await;

    let looked = r#"
data "orrery_workload" "web" {
  metadata = { name = "web" }
}
output "grace" { value = data.orrery_workload.web.spec.stop_grace_seconds }
output "policy" { value = data.orrery_workload.web.spec.restart_policy }
"#;
    terraform.file("look.tf", looked);
    let said = terraform.apply().await.well();
    assert!(said.contains("grace = 3") && said.contains("policy = \"always\""), "{said}");
    terraform
        .file("look.tf", "data \"orrery_workload\" \"no\" {\n  metadata = { name = \"no\" }\n}\n");
    terraform
        .plan()
        .await
        .refused(&["There is no Workload \"no\" in project \"default\"", "look.tf line 2"]);
}

/// What one resource learns from the server is what another is made of: known only after an apply, in lists, sets,
/// maps and opaque data.
#[tokio::test]
async fn resources_are_made_of_what_others_learn() {
    let terraform = Terraform::start().await;
    let linked = r#"
resource "orrery_project" "p" {
  metadata = { name = "p" }
}
locals { uid = orrery_project.p.metadata.uid }
resource "orrery_workload" "w" {
  metadata = { name = "w", project = orrery_project.p.id, annotations = { "made-for" = local.uid } }
  spec = {
    process   = { command = "sleep", args = [local.uid, "5"], env = { UID = local.uid } }
    placement = { nodes = ["n-${substr(local.uid, 0, 4)}"] }
    files     = [{ path = "uid", text = local.uid }, { path = "plain", text = "x", mode = "0644" }]
  }
  wait_for_ready = false
}
resource "orrery_machine_class" "c" {
  metadata = { name = "c", project = orrery_project.p.metadata.name }
  spec     = { provider = "qemu", provider_spec = { owner = local.uid, n = 1 } }
}
"#;
    terraform.write(linked);
    terraform.apply().await.well();
    terraform.is_settled().await;
    terraform.write(&linked.replace("\"5\"", "\"6\""));
    let wanted = terraform.wants().await;
    assert!(wanted.contains("0 to add, 1 to change, 0 to destroy"), "{wanted}");
    terraform.apply().await.well();
    terraform.is_settled().await;
    terraform.destroy().await.well();
}

/// Terraform writes the configuration of what is imported, and that is all that is to say of it.
#[tokio::test]
async fn the_configuration_of_what_is_there_can_be_written_by_terraform() {
    let terraform = Terraform::start().await;
    let files =
        json!([{"path": "a", "text": "1"}, {"path": "b", "secret": {"name": "s", "key": "k"}}]);
    let spec = json!({
        "podman": {"image": "i", "ports": [{"containerPort": 80}], "env": {"A": "b"}},
        "placement": {"selector": {"matchLabels": {"zone": "a"}}, "replicas": 0},
        "files": files,
        "readinessProbe": {"http": {"port": 80}},
    });
    set(&terraform.world, "Workload", "there", json!({"spec": spec}), false).await.expect("new");
    terraform.write("import {\n  to = orrery_workload.there\n  id = \"default/there\"\n}\n");
    terraform.run(&["plan", "-generate-config-out=there.tf"]).await.well();
    let said = terraform.apply().await.well();
    assert!(said.contains("1 imported, 0 added, 0 changed, 0 destroyed"), "{said}");
    terraform.is_settled().await;
}

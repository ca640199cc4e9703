//! Kinds of every part of the system: applied, and then nothing is left to do.
use super::Terraform;

const ALL: &str = r#"
resource "orrery_role" "r" {
  metadata = { name = "r", description = "" }
  spec = {
    rules = [{ verbs = ["get", "list"], groups = ["apps"], resources = ["workloads"] }]
  }
}
resource "orrery_role_binding" "b" {
  metadata = { name = "b" }
  spec     = { role = orrery_role.r.metadata.name, subjects = [{ name = "ann" }, { kind = "Group", name = "g" }] }
}
resource "orrery_revocation" "v" {
  metadata = { name = "v" }
  spec     = { role = "agent", peer = "lost" }
}
resource "orrery_join_token" "t" {
  metadata = { name = "t" }
  spec = {
    role        = "agent"
    peer        = "edge-*"
    secret_hash = join("", [for i in range(64) : "a"])
    expires_at  = "2099-01-31T13:00:00+01:00"
  }
}
resource "orrery_git_sync" "g" {
  metadata = { name = "g" }
  spec     = { repository = "https://localhost/x.git", suspend = true, write_back = { kinds = ["Workload", "Volume"] } }
  wait_for_ready = false
}
resource "orrery_volume" "d" {
  metadata       = { name = "d" }
  spec           = { size = "1Gi", snapshots = [{ name = "s" }] }
  wait_for_ready = false
}
resource "orrery_machine_class" "c" {
  metadata = { name = "c" }
  spec     = { provider = "qemu" }
}
resource "orrery_machine_deployment" "m" {
  metadata       = { name = "m" }
  spec           = { replicas = 0, template = { class = orrery_machine_class.c.metadata.name } }
  wait_for_ready = false
}
resource "orrery_mesh_service" "s" {
  metadata = { name = "s" }
  spec = {
    ports             = [{ name = "web", port = 80 }, { name = "db", port = 5432, protocol = "tcp" }]
    timeout           = "1.50s"
    retries           = { attempts = 2, per_try_timeout = "0.250s" }
    outlier_detection = {}
    health_check      = { path = "/" }
  }
  wait_for_ready = false
}
resource "orrery_http_route_group" "h" {
  metadata = { name = "h" }
  spec = {
    matches = [
      { name = "get", methods = ["GET"], headers = jsonencode({ host = ".*" }) },
      { name = "all" },
    ]
  }
}
resource "orrery_traffic_target" "tt" {
  metadata = { name = "tt" }
  spec = {
    destination = { kind = "ServiceAccount", name = "s" }
    sources     = [{ kind = "ServiceAccount", name = "a" }]
    rules       = [{ kind = "HTTPRouteGroup", name = "h", matches = ["get"] }]
  }
}
resource "orrery_traffic_split" "ts" {
  metadata = { name = "ts" }
  spec     = { service = "s", backends = [{ service = "s", weight = 90 }, { service = "s2", weight = 10 }] }
}
"#;

/// proves: HUB-20
#[tokio::test]
async fn kinds_of_every_part_settle() {
    let terraform = Terraform::start().await;
    terraform.write(ALL);
    let said = terraform.apply().await.well();
    assert!(said.contains("12 added"), "{said}");
    terraform.is_settled().await;
    let changed = ALL.replace("weight = 90", "weight = 80").replace("\"1.50s\"", "\"2s\"");
    terraform.write(&changed);
    let said = terraform.apply().await.well();
    assert!(said.contains("0 added, 2 changed, 0 destroyed"), "{said}");
    terraform.is_settled().await;
    terraform.destroy().await.well();
}

//! What others do at the server, while a test looks at Terraform.
use orrery_client::Hub;
use orrery_proto::hub::v1::resource::Body;
use orrery_proto::hub::v1::{
    ApplyRequest, DeleteRequest, Encoding, GetRequest, Resource, ResourceName,
};
use orrery_testkit::world::{SOON, World};
use serde_json::{Value as Json, json};

async fn hub(world: &World) -> Hub {
    Hub::connect(&world.endpoint(None)).await.expect("the server listens")
}

fn named(kind: &str, name: &str) -> Option<ResourceName> {
    let (kind, name) = (kind.to_owned(), name.to_owned());
    Some(ResourceName { kind, project: "default".to_owned(), name, ..ResourceName::default() })
}

/// An object of the server.
pub async fn get(world: &World, kind: &str, name: &str) -> Option<Json> {
    let name = named(kind, name);
    let request = GetRequest { name, encoding: Encoding::Json.into(), ..GetRequest::default() };
    match hub(world).await.get(request).await {
        Ok(response) => match response.resource?.body? {
            Body::Json(text) => Some(serde_json::from_str(&text).unwrap()),
            Body::Protobuf(_) => panic!("JSON was asked for"),
        },
        Err(orrery_client::Error::Api(error)) if error.reason == "NotFound" => None,
        Err(error) => panic!("{error}"),
    }
}

/// Somebody else sets something.
pub async fn set(
    world: &World,
    kind: &str,
    name: &str,
    mut object: Json,
    force: bool,
) -> Result<(), String> {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["project"] = json!("default");
    let group = if kind == "Workload" { "apps" } else { "infra" };
    object["apiVersion"] = json!(format!("{group}.orrery.dev/v1"));
    object["kind"] = json!(kind);
    let resource = Resource {
        kind: kind.to_owned(),
        body: Some(Body::Json(object.to_string())),
        ..<_>::default()
    };
    let request = ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Json.into(),
        field_manager: "somebody".to_owned(),
        force,
        ..ApplyRequest::default()
    };
    hub(world).await.apply(request).await.map(|_| ()).map_err(|error| error.to_string())
}

/// Somebody else deletes something.
pub async fn remove(world: &World, kind: &str, name: &str) {
    let request = DeleteRequest { name: named(kind, name), ..DeleteRequest::default() };
    hub(world).await.delete(request).await.expect("it is there");
    tokio::time::timeout(SOON, async {
        while get(world, kind, name).await.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it goes soon");
}

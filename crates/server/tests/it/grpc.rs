//! What programs are told over gRPC.
use crate::support::{World, workload};
use futures::StreamExt as _;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::resource::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status};
use tonic_reflection::pb::{v1, v1alpha};

const JSON: i32 = hub::Encoding::Json as i32;

fn apply(api_version: &str, kind: &str, object: &Value) -> hub::ApplyRequest {
    let resource = hub::Resource {
        api_version: api_version.into(),
        kind: kind.into(),
        body: Some(Body::Json(object.to_string())),
    };
    hub::ApplyRequest { resource: Some(resource), encoding: JSON, ..<_>::default() }
}

fn name(name: &str) -> Option<hub::ResourceName> {
    let (kind, project) = ("Workload".into(), "default".into());
    Some(hub::ResourceName { kind, project, name: name.into(), ..<_>::default() })
}

fn mk_workload(name: &str) -> Value {
    let mut object = workload(name);
    object["metadata"]["project"] = json!("default");
    object
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>, words: &str) {
    let status = outcome.expect_err(words);
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains(words), "{}", status.message());
}

/// What a program means that this server does not know, is not guessed.
#[tokio::test]
async fn unknown_values_of_enumerations_are_refused() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let given = apply("", "", &mk_workload("a"));
    refused(
        api.apply(hub::ApplyRequest { mode: 9, ..given.clone() }).await,
        "ApplyRequest.mode: 9",
    );
    let odd = hub::ApplyRequest { encoding: 7, ..given.clone() };
    refused(api.apply(odd).await, "ApplyRequest.encoding: 7");
    api.apply(given).await.unwrap();
    let odd = hub::DeleteRequest { name: name("a"), propagation: 9, ..<_>::default() };
    refused(api.delete(odd).await, "DeleteRequest.propagation: 9");
    let odd = hub::DeleteRequest { name: name("a"), encoding: 7, ..<_>::default() };
    refused(api.delete(odd).await, "DeleteRequest.encoding: 7");
    let odd = hub::GetRequest { name: name("a"), encoding: 7, ..<_>::default() };
    refused(api.get(odd).await, "GetRequest.encoding: 7");
    let odd = hub::ListRequest { kind: "Workload".into(), encoding: 7, ..<_>::default() };
    refused(api.list(odd).await, "ListRequest.encoding: 7");
    let odd = hub::WatchRequest { kind: "Workload".into(), encoding: 7, ..<_>::default() };
    refused(api.watch(odd).await, "WatchRequest.encoding: 7");
    api.get(hub::GetRequest { name: name("a"), ..<_>::default() })
        .await
        .expect("it is still there");
}

#[tokio::test]
async fn a_resource_and_its_json_agree_on_what_it_is() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let whole = mk_workload("a");
    for (api_version, kind) in
        [("", "Node"), ("infra.orrery.dev/v1", ""), ("apps.orrery.dev/v9", "Workload")]
    {
        refused(api.apply(apply(api_version, kind, &whole)).await, "disagree with the JSON");
    }
    for (api_version, kind) in [("", ""), ("", "Workload"), ("apps.orrery.dev/v1", "Workload")] {
        api.apply(apply(api_version, kind, &whole)).await.unwrap();
    }
    let mut bare = mk_workload("b");
    let fields = bare.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    api.apply(apply("apps.orrery.dev/v1", "Workload", &bare))
        .await
        .expect("the message says what it is");
    refused(api.apply(apply("", "", &bare)).await, "kind is missing");
}

#[tokio::test]
async fn a_refusal_says_which_resource_is_meant() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let mut odd = mk_workload("web");
    odd["spec"]["colour"] = json!("red");
    refused(api.apply(apply("", "", &odd)).await, "Workload \"web\" is invalid");
}

/// Tools ask in either version which services there are, and find those of this port only.
#[tokio::test]
async fn reflection_lists_the_services_of_this_port() {
    let world = World::start().await;
    let endpoint = tonic::transport::Endpoint::from_shared(world.url()).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let ask = v1::ServerReflectionRequest {
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
        ..<_>::default()
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers =
        client.server_reflection_info(futures::stream::iter([ask])).await.unwrap().into_inner();
    let Some(v1::server_reflection_response::MessageResponse::ListServicesResponse(found)) =
        answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services");
    };
    let found: BTreeSet<String> = found.service.into_iter().map(|service| service.name).collect();
    let ask = v1alpha::ServerReflectionRequest {
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
        ..<_>::default()
    };
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers =
        client.server_reflection_info(futures::stream::iter([ask])).await.unwrap().into_inner();
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(older)) =
        answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services");
    };
    let older: BTreeSet<String> = older.service.into_iter().map(|service| service.name).collect();
    assert_eq!(found, older);
    assert!(
        found.contains("orrery.hub.v1.Hub") && found.contains("orrery.identity.v1.Identity"),
        "{found:?}"
    );
    for elsewhere in ["infra.Infragrpc", "orrery.volumes.v1.Pool", "csi.v1.Node"] {
        assert!(!found.contains(elsewhere), "{found:?}");
    }
    for service in found {
        for described in
            [described(&channel, &service).await, described_as_before(&channel, &service).await]
        {
            assert!(described, "what is listed can be described: {service}");
        }
    }
}

async fn described(channel: &tonic::transport::Channel, service: &str) -> bool {
    let ask = v1::ServerReflectionRequest {
        message_request: Some(v1::server_reflection_request::MessageRequest::FileContainingSymbol(
            service.to_owned(),
        )),
        ..<_>::default()
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let answers = client.server_reflection_info(futures::stream::iter([ask])).await;
    answers.unwrap().into_inner().next().await.is_some_and(|answer| answer.is_ok())
}

async fn described_as_before(channel: &tonic::transport::Channel, service: &str) -> bool {
    let ask = v1alpha::ServerReflectionRequest {
        message_request: Some(
            v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                service.to_owned(),
            ),
        ),
        ..<_>::default()
    };
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let answers = client.server_reflection_info(futures::stream::iter([ask])).await;
    answers.unwrap().into_inner().next().await.is_some_and(|answer| answer.is_ok())
}

/// Errors travel in headers, of which clients take 8 KiB for sure: more, and code and text are lost.
#[tokio::test]
async fn long_errors_fit_into_headers() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let mut given = mk_workload("a");
    let key = |number: usize| format!("{}\u{fc}/{number}", "x".repeat(300));
    given["metadata"]["labels"] = (0..50).map(|n| (key(n), json!("v"))).collect();
    let status = api.apply(apply("", "", &given)).await.expect_err("bad labels");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let headers = status.clone().into_http::<()>().into_parts().0.headers;
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    assert!(bytes < 8 << 10, "{bytes} bytes");
    let details = tonic_types::StatusExt::get_details_bad_request(&status).expect("violations");
    let last = details.field_violations.last().expect("one at least");
    assert!(last.description.starts_with("and 4") && last.description.contains("more"), "{last:?}");
}

/// Clients of gRPC take messages of 4 MiB unless they are told otherwise.
#[tokio::test]
async fn a_list_of_large_objects_comes_in_parts_that_clients_take() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    for number in 0..6 {
        let name = format!("s{number}");
        let secret = json!({
            "apiVersion": "core.orrery.dev/v1",
            "kind": "Secret",
            "metadata": { "name": name, "project": "default" },
            "spec": { "stringData": { "a": "x".repeat(900 << 10) } },
        });
        api.apply(apply("", "", &secret)).await.unwrap();
    }
    let (mut found, mut parts, mut token) = (BTreeSet::new(), 0, String::new());
    loop {
        let (kind, project) = ("Secret".into(), "default".into());
        let request =
            hub::ListRequest { kind, project, encoding: JSON, r#continue: token, ..<_>::default() };
        // The client's own limit is 4 MiB.
        let part = api.list(request).await.unwrap().into_inner();
        for item in part.items {
            let Some(Body::Json(text)) = item.body else { panic!("JSON was asked for") };
            let object: Value = serde_json::from_str(&text).unwrap();
            found.insert(object["metadata"]["name"].as_str().expect("a name").to_owned());
        }
        parts += 1;
        token = part.r#continue;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found.len(), 6, "{found:?}");
    assert!((2..=6).contains(&parts), "{parts} parts");
}

#[tokio::test]
async fn requests_may_be_compressed_and_have_limits_all_the_same() {
    let world = World::start().await;
    let plain = HubClient::connect(world.url()).await.unwrap();
    let mut api = plain.clone().send_compressed(CompressionEncoding::Gzip);
    api.apply(apply("", "", &mk_workload("a"))).await.expect("applied");
    let mut large = mk_workload("a");
    large["metadata"]["description"] = json!("x".repeat(5 << 20));
    for (mut api, how) in [(plain, "plain"), (api, "compressed")] {
        let refused = api.apply(apply("", "", &large)).await.expect_err(how);
        assert_eq!(refused.code(), Code::ResourceExhausted, "{how}: {refused}");
    }
}

use super::codec::{Frame, version_text};
use crate::address::Endpoint;
use crate::envoy::load_assignment;
use crate::xds::{Kind, Protocol, Push};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};
use prost::Message as _;
use std::sync::Arc;

fn frame(protocol: Protocol) -> Frame {
    let at = |text: &str| Endpoint::of(text.parse().unwrap()).unwrap();
    // More than 127 bytes, so that lengths take two.
    let many: Vec<_> = (1..50).map(|host| at(&format!("10.0.0.{host}:80"))).collect();
    let resources = vec![
        Arc::new(load_assignment(&"shop/books".into(), &many)),
        Arc::new(load_assignment(&"shop/empty".into(), &[])),
    ];
    let removed = match protocol {
        Protocol::Delta => vec!["shop/gone".into()],
        Protocol::StateOfTheWorld => Vec::new(),
    };
    let kind = Kind::Endpoints;
    Frame {
        protocol,
        push: Push { kind, version: 0xabc, nonce: 7, resources, removed, changed: vec![] },
    }
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    frame.write(&mut out);
    out
}

/// proves: MSH-01
#[test]
fn what_we_write_by_hand_is_what_envoys_types_read() {
    let frame = frame(Protocol::StateOfTheWorld);
    let decoded = DiscoveryResponse::decode(&*bytes(&frame)).expect("a response");
    assert_eq!(decoded.version_info, "0000000000000abc");
    assert_eq!(
        (decoded.nonce.as_str(), decoded.type_url.as_str()),
        ("7", Kind::Endpoints.type_url())
    );
    let names = decoded.resources.iter().map(|any| {
        assert_eq!(any.type_url, Kind::Endpoints.type_url());
        ClusterLoadAssignment::decode(&*any.value).expect("an assignment").cluster_name
    });
    assert_eq!(names.collect::<Vec<_>>(), ["shop/books", "shop/empty"]);
    assert_eq!(decoded.encode_to_vec().len(), bytes(&frame).len(), "nothing but known fields");
}

/// proves: MSH-07
#[test]
fn delta_answers_too() {
    let frame = frame(Protocol::Delta);
    let decoded = DeltaDiscoveryResponse::decode(&*bytes(&frame)).expect("a response");
    assert_eq!(decoded.system_version_info, "0000000000000abc");
    assert_eq!((decoded.nonce.as_str(), decoded.removed_resources.len()), ("7", 1));
    for (sent, resource) in frame.push.resources.iter().zip(&decoded.resources) {
        assert_eq!(*resource.name, *sent.name);
        assert_eq!(resource.version, version_text(sent.version));
        let any = resource.resource.as_ref().expect("a body");
        let body = ClusterLoadAssignment::decode(&*any.value).expect("an assignment");
        assert_eq!(body.cluster_name, resource.name);
    }
    assert_eq!(decoded.encode_to_vec().len(), bytes(&frame).len(), "nothing but known fields");
}

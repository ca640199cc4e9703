use super::*;
use orrery_proto::mesh::v1::{Fronting, SidecarConnection};

fn mk_service() -> MeshService {
    let port = |name: &str, number: i32, protocol: &str, fronting: Option<i32>| MeshPort {
        name: Some(name.to_owned()),
        port: Some(number),
        target_port: Some(number + 8000),
        protocol: Some(protocol.to_owned()),
        fronting_port: fronting,
    };
    let connect = SidecarConnection { port: Some(5432), to: Some("db:5432".to_owned()) };
    let spec = MeshServiceSpec {
        ports: vec![
            port("http", 80, "http", None),
            port("grpc", 81, "http2", Some(15_007)),
            port("closed", 82, "http", None),
        ],
        fronting: Some(Fronting { port: Some(15_006) }),
        sidecar: Some(Sidecar { connect: vec![connect], ..Sidecar::default() }),
        ..MeshServiceSpec::default()
    };
    let metadata = ObjectMeta { name: "web".into(), uid: "u-1".into(), ..ObjectMeta::default() };
    MeshService { metadata: Some(metadata), spec: Some(spec), ..MeshService::default() }
}

fn web() -> ObjectName {
    ObjectName::new("shop", "web")
}

fn planned(service: &MeshService, servers: Option<&str>) -> (WorkloadSpec, Value) {
    let workload = workload(&web(), service, servers).expect("planned");
    let spec = workload.spec.expect("with a spec");
    let Some(file::Source::Text(text)) = &spec.files[0].source else { panic!("a text") };
    let bootstrap = serde_json::from_str(text).expect("it is JSON");
    (spec, bootstrap)
}

/// proves: MSH-07
#[test]
fn the_workload_is_beside_that_of_the_service() {
    let mut service = mk_service();
    let made = workload(&web(), &service, None).expect("planned");
    let metadata = made.metadata.expect("with metadata");
    assert_eq!((metadata.name.as_str(), metadata.project.as_str()), ("web-sidecar", "shop"));
    assert!(super::super::names::belongs_to(&Some(metadata), "u-1"));
    let beside = |service: &MeshService| planned(service, None).0.placement.unwrap_or_default();
    assert_eq!(beside(&service).beside.as_deref(), Some("web"));
    service.spec.as_mut().expect("made with one").workload = Some("shop".into());
    assert_eq!(beside(&service).beside.as_deref(), Some("shop"));
}

/// proves: MSH-07
#[test]
fn the_bootstrap_says_what_is_taken_where() {
    let (spec, bootstrap) = planned(&mk_service(), None);
    assert_eq!(spec.files.len(), 1, "plain connections need no proof");
    let metadata = &bootstrap["node"]["metadata"];
    assert_eq!(bootstrap["node"]["cluster"], "shop/web");
    assert_eq!(metadata["orrery_outbound"], "127.0.0.1:15001");
    assert_eq!(metadata["orrery_inbound"], "0.0.0.0:15006");
    assert_eq!(metadata["orrery_instance"], "127.0.0.1:8080");
    let ports = metadata["orrery_ports"].as_object().expect("further ports");
    assert_eq!(ports.keys().collect::<Vec<_>>(), ["81"], "others have no way to it");
    assert_eq!(ports["81"]["inbound"], "0.0.0.0:15007");
    assert_eq!(metadata["orrery_connect"]["127.0.0.1:5432"], "shop/db:5432");
    assert_eq!(metadata.get("orrery_endpoint_port"), None, "the fleet knows where it is");
    let text = bootstrap.to_string();
    for mark in [HOST_MARK, PORT_MARK] {
        assert_eq!(text.matches(&format!("\"{mark}\"")).count(), 1, "{text}");
        assert!(START.contains(mark), "{mark} is replaced");
    }
    assert!(!text.contains(FILES_MARK) && START.contains(FILES_MARK));
}

#[test]
fn where_connections_are_encrypted_it_shows_a_certificate() {
    let (spec, bootstrap) = planned(&mk_service(), Some("spiffe://example.org/server/"));
    let paths: Vec<&str> = spec.files.iter().map(|file| file.path()).collect();
    assert_eq!(paths, [BOOTSTRAP, ROOTS, CERTIFICATE, KEY]);
    let text = bootstrap.to_string();
    assert!(text.contains("@FILES@/key.pem") && text.contains("spiffe://example.org/server/"));
    assert!(text.contains(r#""prefix":"spiffe://example.org/server/""#), "{text}");
}

#[track_caller]
fn check_probe(protocol: &str, encrypted: bool, expect: i32) {
    let mut service = mk_service();
    let spec = service.spec.as_mut().expect("made with one");
    spec.ports[0].protocol = Some(protocol.to_owned());
    spec.encrypted = Some(encrypted);
    let probe = planned(&service, None).0.readiness_probe.expect("it is asked");
    assert_eq!(probe.action, Some(probe::Action::Tcp(TcpProbe { port: Some(expect) })));
}

/// A connection that is passed on would be one to the instance.
#[test]
fn it_is_asked_where_nobody_else_hears_it() {
    check_probe("http", false, 15_006);
    check_probe("tcp", true, 15_006);
    check_probe("tcp", false, 15_001);
}

#[test]
fn it_takes_these_ports_of_its_node() {
    let spec = mk_service().spec.expect("made with one");
    assert_eq!(ports(&spec), [5432, 15_001, 15_006, 15_007]);
    assert!(ports(&MeshServiceSpec { sidecar: None, ..spec }).is_empty());
}

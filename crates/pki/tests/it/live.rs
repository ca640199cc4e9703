//! Material that changes while it is in use, authorities that follow each other, and those who are
//! known but not welcome.

use std::sync::Arc;

use orrery_pki::{
    ADMINS, Authority, ClientAuth, Fingerprint, Identity, IssueRequest, LiveTls, PIN_MISMATCH, Role,
    Subject, TlsFiles, TlsMaterial, Validity, pinned_client_config,
};

use crate::support::{DAY, connect, mk_authority, mk_request, now};

fn issue(authority: &Authority, role: Role, name: &str) -> TlsMaterial {
    let validity = Validity::starting(now(), DAY);
    authority.issue(&mk_request(role, name), validity).unwrap().material().unwrap()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_the_next_handshake_on() {
    let authority = mk_authority();
    let server = LiveTls::new(issue(&authority, Role::Server, "s"));
    let client = LiveTls::new(issue(&authority, Role::Agent, "edge-1"));
    let (listening, dialling) =
        (server.server_config(ClientAuth::Required), client.client_config());
    let first = connect(listening.clone(), dialling.clone()).await.unwrap();
    server.set(issue(&authority, Role::Server, "s"));
    client.set(issue(&authority, Role::Agent, "edge-1"));
    let second = connect(listening, dialling).await.unwrap();
    assert_ne!(first.server.serial, second.server.serial);
    assert_ne!(first.client.unwrap().serial, second.client.unwrap().serial);
}

#[tokio::test]
async fn changed_files_are_noticed_and_broken_ones_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let authority = mk_authority();
    let files = TlsFiles::in_folder(folder.path());
    let write = || {
        let issued = authority
            .issue(&mk_request(Role::Server, "s"), Validity::starting(now(), DAY))
            .unwrap();
        let key = Some(issued.key_pem());
        files.write(issued.root_pem(), issued.certificate_pem(), key).unwrap();
        issued.identity().serial.clone()
    };
    let first = write();
    let live = LiveTls::from_files(&files).unwrap().unwrap();
    assert_eq!(live.current().0.identity().serial, first);
    assert!(!live.refresh().unwrap());
    let second = write();
    assert!(live.refresh().unwrap());
    assert_eq!(live.current().0.identity().serial, second);
    std::fs::write(files.certificate.as_ref().unwrap(), "garbage").unwrap();
    assert!(live.refresh().is_err());
    assert!(!live.refresh().unwrap(), "told once");
    assert_eq!(live.current().0.identity().serial, second, "the old one goes on");
}

/// Whoever trusts only the old authority accepts what its successor signs, and the other way round
/// while both are trusted; afterwards only the new one counts.
#[tokio::test]
async fn an_authority_is_followed_by_another() {
    let old = mk_authority();
    let new = old.successor(Validity::starting(now(), 30 * DAY)).unwrap();
    let roots = new.root_pem().to_owned() + old.root_pem();
    let server = LiveTls::new(issue(&new, Role::Server, "s"));
    server.trust_also(&issue(&new, Role::Server, "s"), &roots).unwrap();
    let listening = server.server_config(ClientAuth::Required);
    let left_behind = issue(&old, Role::Agent, "edge-1").client_config();
    let renewed = issue(&new, Role::Agent, "edge-1").client_config();
    connect(listening.clone(), left_behind.clone()).await.expect("vouched for by the old one");
    connect(listening.clone(), renewed.clone()).await.expect("signed by the new one");
    let only_new = issue(&new, Role::Server, "s");
    server.trust_also(&only_new, new.root_pem()).unwrap();
    connect(listening.clone(), renewed).await.expect("signed by the new one");
    let refused = connect(listening, left_behind).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer") || refused.contains("UnknownCA"), "{refused}");
}

#[tokio::test]
async fn who_is_disabled_is_refused_in_the_handshake() {
    let authority = mk_authority();
    let server = LiveTls::new(issue(&authority, Role::Server, "s"));
    server.refuse(Arc::new(|peer: &Identity| peer.name() == Some("edge-1")));
    let listening = server.server_config(ClientAuth::Optional);
    let dial = |name| issue(&authority, Role::Agent, name).client_config();
    connect(listening.clone(), dial("edge-2")).await.expect("welcome");
    let refused = connect(listening, dial("edge-1")).await.unwrap_err();
    assert!(refused.contains("Revoked"), "{refused}");
}

/// A joiner knows its server by a hash alone, and no other server, not even one of the same name.
#[tokio::test]
async fn a_server_is_known_by_the_hash_of_its_authority() {
    let (ours, theirs) = (mk_authority(), mk_authority());
    let hash = |authority: &Authority| {
        Identity::of_pem(authority.certificate_pem().as_bytes()).unwrap().fingerprint
    };
    let listen =
        |authority: &Authority| issue(authority, Role::Server, "s").server_config(ClientAuth::Optional);
    let joiner = pinned_client_config(hash(&ours));
    let seen = connect(listen(&ours), joiner.clone()).await.expect("the right one");
    assert_eq!(seen.client, None);
    let refused = connect(listen(&theirs), joiner).await.unwrap_err();
    assert!(refused.contains(PIN_MISMATCH), "{refused}");
    // The hash of the server's own certificate is not the hash of an authority.
    let material = issue(&ours, Role::Server, "s");
    let own = pinned_client_config(material.identity().fingerprint);
    assert!(connect(material.server_config(ClientAuth::Optional), own).await.is_err());
    assert!(connect(listen(&ours), pinned_client_config(Fingerprint::of(b"x"))).await.is_err());
}

#[test]
fn groups_are_for_people() {
    let authority = mk_authority();
    let subject = |role| {
        let request = IssueRequest::new(role, "x").group(ADMINS);
        let issued = authority.issue(&request, Validity::starting(now(), DAY)).unwrap();
        Subject::of_certificate(issued.identity())
    };
    assert!(subject(Role::User).is_in(ADMINS));
    for role in Role::ALL.into_iter().filter(|role| *role != Role::User) {
        assert!(!subject(role).is_in(ADMINS), "{role}");
    }
}

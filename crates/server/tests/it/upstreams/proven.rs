//! What a site shows its centre, and what the centre lets it do.
use super::{CLASSES, at, class, declare, mk_operations};
use crate::encrypted::validity;
use crate::support::{PATIENCE, World, options};
use orrery_pki::{ADMINS, Authority, BearerToken, IssueRequest, Role, TlsFiles};
use orrery_proto::core::v1::{AccessToken, AccessTokenSpec};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_server::{Operations, Server};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

struct Centre {
    world: World,
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Centre {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
        let server = IssueRequest::new(Role::Server, "centre").ip(Ipv4Addr::LOCALHOST);
        let server = authority.issue(&server, validity()).unwrap();
        let server = server.write_to(&folder.path().join("server")).unwrap();
        let world = World::start_with(server).await;
        Self { world, folder, authority }
    }

    fn url(&self) -> String {
        format!("https://{}", self.world.address)
    }

    /// The files of a person.
    fn person(&self, name: &str, groups: &[&str]) -> TlsFiles {
        let mut request = IssueRequest::new(Role::User, name);
        for group in groups {
            request = request.group(*group);
        }
        let issued = self.authority.issue(&request, validity()).unwrap();
        issued.write_to(&self.folder.path().join(name)).unwrap()
    }

    /// A token that stands for an administrator, in a file.
    async fn token(&self) -> std::path::PathBuf {
        let token = BearerToken::generate("site");
        let spec = AccessTokenSpec {
            user: Some("site".into()),
            groups: vec![ADMINS.into()],
            secret_hash: Some(token.hash().to_string()),
            expires_at: None,
        };
        let metadata = Some(ObjectMeta { name: "site".into(), ..ObjectMeta::default() });
        let resource = AccessToken { metadata, spec: Some(spec), ..<_>::default() };
        self.world.hub.resources().unwrap().create(&resource).await.unwrap();
        let path = self.folder.path().join("token");
        std::fs::write(&path, token.to_text().as_bytes()).unwrap();
        only_mine(&path);
        path
    }

    fn operations(&self, tls: TlsFiles) -> Operations {
        let mut operations = mk_operations(&self.url(), &["MachineClass"]);
        operations.upstreams.tls = tls;
        operations
    }
}

fn only_mine(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// proves: HUB-06
#[tokio::test]
async fn a_site_shows_a_certificate() {
    let centre = Centre::start().await;
    declare(&centre.world.hub, "small", "one").await;
    let operations = centre.operations(centre.person("site", &[ADMINS]));
    let site = World::operated(<_>::default(), operations).await;
    assert_eq!(super::note_of(&site.get(&at("small")).await.expect(200)), "one");
    site.post(CLASSES, &class("more", "")).await.expect(201);

    let operations = centre.operations(centre.person("stranger", &[]));
    let site = World::operated(<_>::default(), operations).await;
    let refused = site.get(&at("small")).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(&centre.url()) && message.contains("this server"), "{message}");
}

/// proves: HUB-06
#[tokio::test]
async fn a_site_shows_a_token() {
    let centre = Centre::start().await;
    declare(&centre.world.hub, "small", "one").await;
    let root = centre.person("any", &[]).root;
    let mut operations = centre.operations(TlsFiles { root, ..TlsFiles::default() });
    let good = centre.token().await;
    operations.upstreams.token_file = Some(good.clone());
    let site = World::operated(<_>::default(), operations.clone()).await;
    let known = async {
        while site.get(&at("small")).await.code != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("the token counts");

    let bad = centre.folder.path().join("bad");
    std::fs::write(&bad, BearerToken::generate("nobody").to_text().as_bytes()).unwrap();
    only_mine(&bad);
    operations.upstreams.token_file = Some(bad.clone());
    let site = World::operated(<_>::default(), operations).await;
    let refused = site.get(&at("small")).await.expect(503);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("--upstream-token-file"), "{message}");

    std::fs::copy(good, bad).unwrap();
    assert_eq!(super::note_of(&site.get(&at("small")).await.expect(200)), "one", "read again");
}

#[tokio::test]
async fn a_site_that_has_nothing_to_show_does_not_start() {
    let centre = Centre::start().await;
    let opened = Server::open(options(<_>::default(), centre.operations(<_>::default()))).await;
    let refused = opened.err().expect("it is refused").to_string();
    assert!(refused.contains("--upstream-root"), "{refused}");
}

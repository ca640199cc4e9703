//! People who are known by an issuer: a real HTTP server that signs with fresh keys.
use crate::joining::world_with;
use axum::Json;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use orrery_client::Endpoint;
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_client::IdentityClient;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_server::{IdentityOptions, OidcOptions};
use orrery_testkit::world::SOON;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

/// An issuer on a port of its own; it ends with the test.
struct Issuer {
    url: String,
    pair: EcdsaKeyPair,
    _serving: JoinSet<()>,
}

impl Issuer {
    async fn start() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        let pair = pair.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let point = pair.public_key().as_ref().to_vec();
        let keys = json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "kid": "k1",
            "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]),
        }]});
        let about = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let routes = axum::Router::new()
            .route("/.well-known/openid-configuration", get(|| async { Json(about) }))
            .route("/keys", get(|| async { Json(keys) }));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, pair, _serving: serving }
    }

    fn token(&self, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": "k1" });
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }
}

#[allow(clippy::disallowed_methods, reason = "tokens are judged by the real clock")]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

fn with<T>(token: &str, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

#[tokio::test]
async fn somebody_signs_on_with_an_issuer() {
    let issuer = Issuer::start().await;
    let oidc = OidcOptions {
        issuer: issuer.url.clone(),
        audience: "orrery".into(),
        username_claim: "email".into(),
        groups_claim: "groups".into(),
        prefix: "oidc:".into(),
    };
    let world = world_with(IdentityOptions { oidc: Some(oidc), ..<_>::default() }).await;
    let subject =
        core::AccessSubject { kind: Some("Group".into()), name: Some("oidc:readers".into()) };
    let spec = core::RoleBindingSpec { role: Some("viewer".into()), subjects: vec![subject] };
    let metadata =
        ObjectMeta { project: "default".into(), name: "readers".into(), ..<_>::default() };
    let binding =
        core::RoleBinding { metadata: Some(metadata), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().create(&binding).await.unwrap();

    let authority = world.identities.authorities().current().unwrap().fingerprint();
    let endpoint = Endpoint::pinned(&world.url, authority).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let claims = json!({
        "iss": issuer.url, "aud": "orrery", "email": "ann@example.org", "exp": now() + 300,
        "groups": ["readers"],
    });
    let token = issuer.token(&claims);
    let mut client = IdentityClient::new(channel.clone());
    let me = client.who_am_i(with(&token, wire::WhoAmIRequest {})).await.unwrap().into_inner();
    assert_eq!((me.name.as_str(), me.known_by.as_str()), ("oidc:ann@example.org", "oidc"));

    let mut api = HubClient::new(channel);
    let list = |project: &str| hub::ListRequest {
        kind: "workloads".into(),
        project: project.into(),
        ..<_>::default()
    };
    let allowed = tokio::time::timeout(SOON, async {
        while api.list(with(&token, list("default"))).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    allowed.await.expect("what the group is given counts");
    let refused = api.list(with(&token, list("system"))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);

    // Expired, for somebody else, and by somebody else: nobody.
    let other = Issuer::start().await;
    let mut expired = claims.clone();
    expired["exp"] = json!(now() - 120);
    let mut elsewhere = claims.clone();
    elsewhere["aud"] = json!("another");
    for bad in [issuer.token(&expired), issuer.token(&elsewhere), other.token(&claims)] {
        let refused = api.list(with(&bad, list("default"))).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    }
}

//! People who are known by an issuer: a real HTTP server that signs with fresh keys.
use crate::access::certificate;
use crate::joining::world_with;
use crate::reviews::TOKENS;
use axum::Json;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use orrery_client::Endpoint;
use orrery_pki::{ADMINS, Role, TlsMaterial};
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_client::IdentityClient;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_server::{IdentityOptions, OidcOptions};
use orrery_testkit::world::{SOON, World};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// A key of an issuer.
enum Pair {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Pair {
    fn p256() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Self::P256(pair.unwrap())
    }

    /// Made by openssl, because ring makes none.
    fn rsa() -> Self {
        let make = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        let mut openssl = std::process::Command::new("openssl");
        let made = openssl.args(make).args(["-outform", "DER"]).output().unwrap();
        // Which of the two forms it writes depends on its version.
        let pair = RsaKeyPair::from_pkcs8(&made.stdout);
        Self::Rsa(pair.or_else(|_| RsaKeyPair::from_der(&made.stdout)).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    fn published(&self, id: &str) -> Value {
        let mut key = match self {
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({
                    "kty": "EC", "crv": "P-256",
                    "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]),
                })
            }
            Self::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": BASE64.encode(public.n), "e": BASE64.encode(public.e) })
            }
        };
        (key["use"], key["kid"]) = (json!("sig"), json!(id));
        key
    }

    fn sign(&self, text: &str) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
        }
    }
}

/// An issuer on a port of its own; it ends with the test.
struct Issuer {
    url: String,
    /// The key that it signs with now, and its name.
    pair: Pair,
    id: String,
    published: Arc<Mutex<Value>>,
    _serving: JoinSet<()>,
}

impl Issuer {
    async fn start(pair: Pair) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let published = Arc::new(Mutex::new(json!({ "keys": [pair.published("k1")] })));
        let about = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let keys = published.clone();
        let routes = axum::Router::new()
            .route("/.well-known/openid-configuration", get(|| async { Json(about) }))
            .route("/keys", get(|| async move { Json(keys.lock().clone()) }));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, pair, id: "k1".to_owned(), published, _serving: serving }
    }

    /// Signs with another key from now on; the one from before is taken back.
    fn rotate(&mut self, pair: Pair, id: &str) {
        *self.published.lock() = json!({ "keys": [pair.published(id)] });
        (self.pair, self.id) = (pair, id.to_owned());
    }

    fn claims(&self) -> Value {
        json!({
            "iss": self.url, "aud": "orrery", "email": "ann@example.org", "exp": now() + 300,
            "groups": ["readers"],
        })
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.pair.algorithm(), "typ": "JWT", "kid": self.id });
        let signed = unsigned(&header, claims);
        format!("{signed}.{}", BASE64.encode(self.pair.sign(&signed)))
    }

    fn options(&self) -> IdentityOptions {
        let oidc = OidcOptions {
            issuer: self.url.clone(),
            audience: "orrery".into(),
            username_claim: "email".into(),
            groups_claim: "groups".into(),
            prefix: "oidc:".into(),
        };
        IdentityOptions { oidc: Some(oidc), ..<_>::default() }
    }
}

/// The part of a token that is signed.
fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
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
    let issuer = Issuer::start(Pair::p256()).await;
    let world = world_with(issuer.options()).await;
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
    let claims = issuer.claims();
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
    let other = Issuer::start(Pair::p256()).await;
    let mut expired = claims.clone();
    expired["exp"] = json!(now() - 120);
    let mut elsewhere = claims.clone();
    elsewhere["aud"] = json!("another");
    for bad in [issuer.token(&expired), issuer.token(&elsewhere), other.token(&claims)] {
        let refused = api.list(with(&bad, list("default"))).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    }

    // A service that was shown such tokens is told the same; a machine is told nothing.
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let ask = async |who: &TlsMaterial, token: &str| {
        let body = json!({ "spec": { "token": token } }).to_string();
        let json = [("Content-Type", "application/json")];
        crate::wire::ask(&world, who, "POST", TOKENS, &json, &body).await
    };
    let (code, review) = ask(&admin, &token).await;
    let groups = json!(["oidc:readers", "orrery:user", "system:authenticated"]);
    let expect = json!({
        "authenticated": true, "audiences": ["orrery"],
        "user": { "username": "oidc:ann@example.org", "groups": groups },
    });
    assert_eq!((code, &review["status"]), (201, &expect));
    let (_, review) = ask(&admin, &issuer.token(&elsewhere)).await;
    assert_eq!(review["status"]["authenticated"], false);
    let machine = certificate(&world, Role::Agent, "edge-1", None);
    assert_eq!(ask(&machine, &token).await.0, 403);
}

/// Who a server takes the bearer of a token for.
async fn who(client: &mut IdentityClient<Channel>, token: &str) -> Result<String, tonic::Status> {
    let answer = client.who_am_i(with(token, wire::WhoAmIRequest {})).await?;
    Ok(answer.into_inner().name)
}

async fn client(world: &World) -> IdentityClient<Channel> {
    let authority = world.identities.authorities().current().unwrap().fingerprint();
    let endpoint = Endpoint::pinned(&world.url, authority).unwrap();
    IdentityClient::new(endpoint.connect().await.unwrap())
}

/// An issuer with RSA keys, and everything that is no token of its.
#[tokio::test]
async fn tokens_signed_with_rsa_and_forgeries() {
    let issuer = Issuer::start(Pair::rsa()).await;
    let world = world_with(issuer.options()).await;
    let mut client = client(&world).await;
    let claims = issuer.claims();
    let good = issuer.token(&claims);
    assert_eq!(who(&mut client, &good).await.unwrap(), "oidc:ann@example.org");

    let changed = |change: fn(&mut Value)| {
        let mut claims = claims.clone();
        change(&mut claims);
        issuer.token(&claims)
    };
    let forged = |header: Value, sign: &dyn Fn(&str) -> Vec<u8>| {
        let signed = unsigned(&header, &claims);
        format!("{signed}.{}", BASE64.encode(sign(&signed)))
    };
    let Pair::Rsa(pair) = &issuer.pair else { panic!("it was made with RSA") };
    // The public key as a shared secret, in the forms in which somebody may get hold of it.
    let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
    let published = issuer.published.lock()["keys"][0].to_string();
    let confused = |secret: Vec<u8>| {
        let sign = move |text: &str| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
            ring::hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
        };
        forged(json!({ "alg": "HS256", "typ": "JWT", "kid": "k1" }), &sign)
    };
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, signature] = parts[..] else { panic!("it has three parts") };
    let mut more = claims.clone();
    more["groups"] = json!(["admins"]);
    let own = |text: &str| issuer.pair.sign(text);
    let stranger = Pair::rsa();
    let cases = [
        ("another audience", changed(|claims| claims["aud"] = json!("another"))),
        ("no audience", changed(|claims| claims["aud"] = json!(null))),
        ("expired", changed(|claims| claims["exp"] = json!(now() - 120))),
        ("no end", changed(|claims| claims["exp"] = json!(null))),
        ("not yet", changed(|claims| claims["nbf"] = json!(now() + 120))),
        ("another issuer", changed(|claims| claims["iss"] = json!("https://issuer.example"))),
        ("no name", changed(|claims| claims["email"] = json!(null))),
        ("no signature", format!("{}.", unsigned(&json!({ "alg": "none" }), &claims))),
        ("alg none, signed", forged(json!({ "alg": "none", "kid": "k1" }), &own)),
        ("no alg", forged(json!({ "kid": "k1" }), &own)),
        ("HS256 with the key", confused(pair.public().as_ref().to_vec())),
        ("HS256 with the modulus", confused(public.n)),
        ("HS256 with the published key", confused(published.into_bytes())),
        ("RS384", forged(json!({ "alg": "RS384", "kid": "k1" }), &own)),
        ("ES256 by an RSA key", forged(json!({ "alg": "ES256", "kid": "k1" }), &own)),
        (
            "a critical extension",
            forged(json!({ "alg": "RS256", "kid": "k1", "crit": ["x"] }), &own),
        ),
        ("by a stranger", forged(json!({ "alg": "RS256", "kid": "k1" }), &|t| stranger.sign(t))),
        ("other claims", format!("{head}.{}.{signature}", BASE64.encode(more.to_string()))),
        ("truncated", good[..good.len() - 8].to_owned()),
        ("of two parts", format!("{head}.{body}")),
        ("of four parts", format!("{good}.x")),
    ];
    let mut answers = Vec::new();
    for (what, token) in cases {
        let refused = who(&mut client, &token).await.expect_err(what);
        answers.push((refused.code(), refused.message().to_owned()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "nobody learns which it was: {answers:?}");
    assert_eq!(answers[0].0, tonic::Code::Unauthenticated);
    assert_eq!(who(&mut client, &good).await.unwrap(), "oidc:ann@example.org");
}

/// The issuer puts another key in the place of its first: tokens of the new one are taken, those of the
/// old one no longer, also on open streams.
#[tokio::test]
async fn an_issuer_rotates_its_key() {
    let mut issuer = Issuer::start(Pair::rsa()).await;
    let world = world_with(issuer.options()).await;
    let mut client = client(&world).await;
    let old = issuer.token(&issuer.claims());
    assert!(who(&mut client, &old).await.is_ok());
    issuer.rotate(Pair::p256(), "k2");
    let new = issuer.token(&issuer.claims());
    // Strangers cannot make us ask all the time, so it takes a moment.
    let taken = tokio::time::timeout(SOON, async {
        while who(&mut client, &new).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    taken.await.expect("the new key is fetched");
    assert!(who(&mut client, &old).await.is_err(), "what was signed with the old key is void");
}

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const NOW: i64 = 1_800_000_000;
const ISSUER: &str = "https://issuer.test";
/// How long is waited for an answer of the issuer.
const PATIENCE: Duration = Duration::from_secs(10);

struct Issuer {
    pair: EcdsaKeyPair,
    id: &'static str,
    asked: AtomicUsize,
    /// It takes a question, and never answers.
    hangs: AtomicBool,
}

impl Issuer {
    fn new(id: &'static str) -> Arc<Self> {
        let random = SystemRandom::new();
        let bytes = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let pair = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            bytes.expect("a key").as_ref(),
            &random,
        );
        Arc::new(Self {
            pair: pair.expect("a key"),
            id,
            asked: AtomicUsize::new(0),
            hangs: AtomicBool::new(false),
        })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }

    fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = json!({
            "iss": ISSUER, "aud": ["other", "orrery"], "sub": "ann", "exp": NOW + 300,
            "groups": ["ops", "orrery:admins"],
        });
        change(&mut claims);
        self.sign(&json!({ "alg": "ES256", "kid": self.id }), &claims)
    }
}

#[async_trait]
impl Fetch for Issuer {
    async fn fetch(&self, url: &str) -> Result<Value, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            tokio::time::sleep(PATIENCE).await;
            return Err("it does not answer".to_owned());
        }
        let point = self.pair.public_key().as_ref();
        match url {
            "https://issuer.test/.well-known/openid-configuration" => {
                Ok(json!({ "issuer": ISSUER, "jwks_uri": "https://issuer.test/keys" }))
            }
            "https://issuer.test/keys" => Ok(json!({ "keys": [
                { "kty": "oct", "k": "AAAA" },
                { "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id,
                  "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]) },
            ]})),
            other => Err(format!("what is {other}?")),
        }
    }
}

fn mk_oidc(issuer: &Arc<Issuer>, prefix: &str) -> Oidc {
    let options = OidcOptions {
        issuer: ISSUER.into(),
        audience: "orrery".into(),
        username_claim: "sub".into(),
        groups_claim: "groups".into(),
        prefix: prefix.into(),
    };
    Oidc::new(options, issuer.clone())
}

#[tokio::test]
async fn somebody_is_known_by_the_claims_of_the_issuer() {
    let issuer = Issuer::new("k1");
    let oidc = mk_oidc(&issuer, "oidc:");
    let ann = oidc.login(&issuer.token(|_| {}), NOW).await.expect("known").subject;
    assert_eq!((ann.name.as_str(), ann.known_by), ("oidc:ann", KnownBy::Oidc));
    assert!(ann.is_in("oidc:ops") && ann.is_in("oidc:orrery:admins"));
    assert!(!ann.is_in("orrery:admins"), "only we say who administers");
    let ann = mk_oidc(&issuer, "").login(&issuer.token(|_| {}), NOW).await;
    let ann = ann.expect("known").subject;
    assert!(ann.is_in("ops") && !ann.is_in("orrery:admins"), "{ann:?}");
    for _ in 0..5 {
        oidc.login(&issuer.token(|_| {}), NOW).await.expect("known");
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 4, "keys are kept");
}

#[tokio::test]
async fn tokens_that_are_not_good() {
    let issuer = Issuer::new("k1");
    let oidc = mk_oidc(&issuer, "oidc:");
    let check = async |token: String, expect: TokenProblem| {
        let refused = oidc.login(&token, NOW).await.expect_err("refused");
        assert_eq!(refused, OidcRefusal::Token(expect), "{token}");
    };
    check(issuer.token(|claims| claims["iss"] = json!("https://other")), TokenProblem::Issuer)
        .await;
    check(issuer.token(|claims| claims["aud"] = json!("other")), TokenProblem::Audience).await;
    check(issuer.token(|claims| claims["exp"] = json!(NOW - 61)), TokenProblem::Expired).await;
    check(issuer.token(|claims| claims["exp"] = json!(null)), TokenProblem::Expired).await;
    check(issuer.token(|claims| claims["nbf"] = json!(NOW + 61)), TokenProblem::NotYet).await;
    check(Issuer::new("k1").token(|_| {}), TokenProblem::Signature).await;
    let good = issuer.token(|_| {});
    let truncated = oidc.login(&good[..good.len() - 4], NOW).await;
    assert!(truncated.is_err(), "what is left may be no base64 either");
    check("a.b.c".to_owned(), TokenProblem::Malformed).await;
    check(String::new(), TokenProblem::Malformed).await;
    let claims = json!({ "iss": ISSUER, "aud": "orrery", "sub": "ann", "exp": NOW + 300 });
    for algorithm in ["none", "HS256", "RS256"] {
        let token = issuer.sign(&json!({ "alg": algorithm, "kid": "k1" }), &claims);
        let refused = oidc.login(&token, NOW).await;
        assert!(refused.is_err(), "{algorithm}");
    }
    let nameless = issuer.token(|claims| claims["sub"] = json!(""));
    assert!(matches!(oidc.login(&nameless, NOW).await, Err(OidcRefusal::NoName(_))));
}

/// A key that the issuer has made since is fetched, and strangers cannot make us ask all the time.
#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_but_not_all_the_time() {
    let issuer = Issuer::new("k1");
    let oidc = mk_oidc(&issuer, "oidc:");
    oidc.login(&issuer.token(|_| {}), NOW).await.expect("known");
    let stranger = Issuer::new("k2");
    for _ in 0..10 {
        let _ = oidc.login(&stranger.token(|_| {}), NOW).await;
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 2);
    tokio::time::advance(FETCH_INTERVAL_MIN).await;
    for _ in 0..10 {
        let _ = oidc.login(&stranger.token(|_| {}), NOW).await;
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 4);
}

/// An issuer that hangs holds up those whose keys it alone knows, and nobody else, whatever strangers show.
#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_holds_up_nobody_whose_key_is_known() {
    let issuer = Issuer::new("k1");
    let oidc = Arc::new(mk_oidc(&issuer, "oidc:"));
    oidc.login(&issuer.token(|_| {}), NOW).await.expect("known");
    issuer.hangs.store(true, Ordering::Relaxed);
    tokio::time::advance(FETCH_INTERVAL_MIN).await;
    let begun = Instant::now();
    let stranger = Issuer::new("k2").token(|_| {});
    let strangers = (0..5).map(|_| {
        let (oidc, token) = (oidc.clone(), stranger.clone());
        tokio::spawn(async move { oidc.login(&token, NOW).await.is_err() })
    });
    let strangers: Vec<_> = strangers.collect();
    tokio::task::yield_now().await;
    oidc.login(&issuer.token(|_| {}), NOW).await.expect("known");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for stranger in strangers {
        assert!(stranger.await.expect("it ends"), "refused");
    }
    assert!(begun.elapsed() < 2 * PATIENCE, "they wait for one answer, not one after the other");
    // Keys that are old are looked at by one, and are good for the others meanwhile.
    tokio::time::advance(KEYS_LIFETIME).await;
    let (one, token) = (oidc.clone(), issuer.token(|_| {}));
    let one = tokio::spawn(async move { one.login(&token, NOW).await.is_ok() });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    oidc.login(&issuer.token(|_| {}), NOW).await.expect("known");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(one.await.expect("it ends"));
}

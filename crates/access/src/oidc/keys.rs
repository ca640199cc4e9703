//! The public keys of an issuer (a JWK set).
use super::jwt::Algorithm;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;
use std::sync::Arc;

/// Issuers have a handful; more is a mistake or malice.
const KEYS_MAX: usize = 100;
const P256_COORDINATE_BYTES: usize = 32;

/// The keys of an issuer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Arc<Vec<Key>>,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed point.
    P256(Vec<u8>),
}

impl KeySet {
    /// Keys of other kinds, and keys that are not for signatures, are left out.
    pub fn read(document: &Value) -> Self {
        let keys = document.get("keys").and_then(Value::as_array).into_iter().flatten();
        Self { keys: Arc::new(keys.take(KEYS_MAX).filter_map(key).collect()) }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is a key of this name; without a name, whether there is any.
    pub fn has(&self, id: Option<&str>) -> bool {
        self.fitting(id).next().is_some()
    }

    fn fitting(&self, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| id.is_none() || key.id.as_deref() == id)
    }

    pub fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> bool {
        self.fitting(id).any(|key| match (&key.material, algorithm) {
            (Material::Rsa { n, e }, Algorithm::Rs256) => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(signed, signature)
                    .is_ok()
            }
            (Material::Rsa { .. }, Algorithm::Es256) | (Material::P256(_), Algorithm::Rs256) => {
                false
            }
        })
    }
}

fn key(value: &Value) -> Option<Key> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let bytes = |name: &str| BASE64.decode(text(name)?).ok();
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let material = match (text("kty")?, text("crv")) {
        ("RSA", _) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if [x.len(), y.len()] != [P256_COORDINATE_BYTES; 2] {
                return None;
            }
            Material::P256([&[0x04], x.as_slice(), y.as_slice()].concat())
        }
        (_, _) => return None,
    };
    Some(Key { id: text("kid").map(str::to_owned), material })
}

//! The older forms of private keys, wrapped into the one that our signer takes.
//!
//! PKCS#1 holds an RSA key and nothing that says so; SEC1 holds a key on a curve. PKCS#8 is either of
//! them inside of an envelope that names the algorithm.

use rustls_pki_types::PrivateKeyDer;

/// `SEQUENCE { OID rsaEncryption, NULL }`
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// `SEQUENCE { OID ecPublicKey, OID prime256v1 }`
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// `SEQUENCE { OID ecPublicKey, OID secp384r1 }`
const P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04,
    0x00, 0x22,
];
/// What stands before the key in a SEC1 structure: version 1, then 48 bytes instead of 32.
const SEC1_P384_START: &[u8] = &[0x02, 0x01, 0x01, 0x04, 0x30];

/// The key as PKCS#8. A secret.
pub(crate) fn of(key: &PrivateKeyDer<'_>) -> Vec<u8> {
    match key {
        PrivateKeyDer::Pkcs1(key) => wrap(RSA, key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => {
            let der = key.secret_sec1_der();
            let is_p384 = der.windows(SEC1_P384_START.len()).take(8).any(|w| w == SEC1_P384_START);
            wrap(if is_p384 { P384 } else { P256 }, der)
        }
        PrivateKeyDer::Pkcs8(_) | _ => key.secret_der().to_vec(),
    }
}

fn wrap(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let version: &[u8] = &[0x02, 0x01, 0x00];
    let inner = [version, algorithm, &element(0x04, key)].concat();
    element(0x30, &inner)
}

/// A DER element: tag, length, content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut der = vec![tag];
    match significant.as_slice() {
        [] => der.push(0),
        [short] if *short < 0x80 => der.push(*short),
        long => {
            // A length has at most eight bytes.
            der.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            der.extend_from_slice(long);
        }
    }
    der.extend_from_slice(content);
    der
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_der_wants_them() {
        assert_eq!(element(4, b""), [4, 0]);
        assert_eq!(element(4, &[7; 127])[..3], [4, 127, 7]);
        assert_eq!(element(4, &[7; 128])[..4], [4, 0x81, 128, 7]);
        assert_eq!(element(4, &[7; 300])[..5], [4, 0x82, 1, 44, 7]);
    }
}

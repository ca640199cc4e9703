//! What the host says before the first connection, and what it is told. Pure.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::path::Path;

/// A word that hosts say, so that nobody starts a plugin by mistake. It is no secret.
const COOKIE_NAME: &str = "TF_PLUGIN_MAGIC_COOKIE";
const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// Version of the handshake itself.
const CORE: u32 = 1;
/// Versions of the protocol that the provider speaks, the best first.
pub const PROTOCOLS: [u32; 2] = [6, 5];
/// Asks for a version where the host speaks several.
const PREFERENCE: &str = "ORRERY_TERRAFORM_PROTOCOL";

/// What the host told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The version of the protocol that both speak.
    pub protocol: u32,
    /// The only certificate that is let in. Hosts that name none get a plain connection.
    pub host: Option<CertificateDer<'static>>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error(
        "this is the Orrery provider of Terraform; Terraform starts it by itself.\n\
         How to use it is told in docs/terraform.md; to try a build of your own, name its folder under \
         dev_overrides in the configuration of Terraform's command line."
    )]
    NoHost,
    #[error("the host speaks protocol {0}, and this provider 5 and 6: use Terraform 0.12 or later")]
    Protocol(String),
    #[error("the host names a certificate that cannot be read (PLUGIN_CLIENT_CERT)")]
    Certificate,
}

impl Handshake {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, HandshakeError> {
        if variable(COOKIE_NAME).as_deref() != Some(COOKIE) {
            return Err(HandshakeError::NoHost);
        }
        let versions = variable("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default();
        let preferred = variable(PREFERENCE).and_then(|text| text.parse::<u32>().ok());
        let spoken =
            |version: u32| versions.split(',').any(|one| one.trim().parse() == Ok(version));
        let best = preferred.into_iter().chain(PROTOCOLS).filter(|it| PROTOCOLS.contains(it));
        let Some(protocol) = best.into_iter().find(|it| versions.is_empty() || spoken(*it)) else {
            return Err(HandshakeError::Protocol(versions));
        };
        let host = variable("PLUGIN_CLIENT_CERT").filter(|pem| !pem.is_empty());
        let host = host.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()));
        let host = host.transpose().map_err(|_| HandshakeError::Certificate)?;
        Ok(Self { protocol, host })
    }

    /// The line that tells the host where we are, and which certificate we show.
    pub fn line(protocol: u32, socket: &Path, certificate: Option<&CertificateDer<'_>>) -> String {
        let certificate = certificate.map(|der| STANDARD_NO_PAD.encode(der)).unwrap_or_default();
        format!("{CORE}|{protocol}|unix|{}|grpc|{certificate}\n", socket.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expect: Result<bool, HandshakeError>) {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let read = Handshake::read(|name| find(name).map(|(_, value)| (*value).to_owned()));
        assert_eq!(read.map(|handshake| handshake.host.is_some()), expect, "{variables:?}");
    }

    #[test]
    fn only_hosts_are_served() {
        let cookie = (COOKIE_NAME, COOKIE);
        check(&[], Err(HandshakeError::NoHost));
        check(&[(COOKIE_NAME, "another")], Err(HandshakeError::NoHost));
        check(&[cookie], Ok(false));
        check(&[cookie, ("PLUGIN_PROTOCOL_VERSIONS", "5,6")], Ok(false));
        let old = ("PLUGIN_PROTOCOL_VERSIONS", "3,4");
        check(&[cookie, old], Err(HandshakeError::Protocol("3,4".into())));
        check(&[cookie, ("PLUGIN_CLIENT_CERT", "x")], Err(HandshakeError::Certificate));
        let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        check(&[cookie, ("PLUGIN_CLIENT_CERT", pem)], Ok(true));
    }

    #[track_caller]
    fn check_protocol(versions: &str, preference: &str, expect: u32) {
        let variable = |name: &str| match name {
            COOKIE_NAME => Some(COOKIE.to_owned()),
            "PLUGIN_PROTOCOL_VERSIONS" => Some(versions.to_owned()),
            PREFERENCE => Some(preference.to_owned()),
            _ => None,
        };
        assert_eq!(Handshake::read(variable).map(|it| it.protocol), Ok(expect));
    }

    /// proves: HUB-21
    #[test]
    fn the_best_protocol_that_both_speak_is_spoken() {
        check_protocol("", "", 6);
        check_protocol("5,6", "", 6);
        check_protocol("4,5", "", 5);
        check_protocol("5,6", "5", 5);
        check_protocol("6", "5", 6);
        check_protocol("5,6", "7", 6);
    }

    #[test]
    fn the_line_names_socket_and_certificate() {
        let der = CertificateDer::from(vec![1, 2]);
        let line = Handshake::line(6, Path::new("/tmp/x/socket"), Some(&der));
        assert_eq!(line, "1|6|unix|/tmp/x/socket|grpc|AQI\n");
        assert_eq!(Handshake::line(5, Path::new("/s"), None), "1|5|unix|/s|grpc|\n");
    }
}

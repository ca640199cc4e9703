//! Mutual TLS between proxies, with certificates that come on the same stream.
use super::{CERTIFICATE_NAME, ROOTS_NAME, from_ads, regex_string};
use crate::expression::all_but;
use crate::names::{PROJECT_DEFAULT, ProxyName, ServiceName};
use crate::topology::Revoked;
use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use envoy_types::pb::google::protobuf::BoolValue;
use envoy_types::util::pack_any;
use orrery_pki::{Role, TrustDomain};
use std::collections::BTreeSet;
use tls::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};

/// An expression for the SPIFFE ids of all proxies of a service that are not disabled: the form that
/// [`crate::admit`] reads, the other way round.
pub fn identity_regex(
    trust_domain: Option<&TrustDomain>,
    service: &ServiceName,
    revoked: &Revoked,
) -> String {
    // Without a trust domain of our own, the authority alone decides whom to believe.
    let domain = trust_domain.map_or_else(|| "[^/]+".to_owned(), |one| regex::escape(one.as_str()));
    let names = match revoked.of(service) {
        None => all_names(service),
        Some(revoked) => names_but(service, revoked),
    };
    format!("spiffe://{domain}/{}/{names}", Role::Proxy)
}

fn all_names(service: &ServiceName) -> String {
    let (name, project) = (regex::escape(service.name()), regex::escape(service.project()));
    let long = format!(r"\.{project}(?:\..+)?");
    let tail = if service.project() == PROJECT_DEFAULT { format!("(?:{long})?") } else { long };
    format!("{name}{tail}")
}

/// All names of proxies of a service but these. Where there are too many to say it, none of its instances is left.
fn names_but(service: &ServiceName, revoked: &BTreeSet<ProxyName>) -> String {
    let long = format!("{}.{}", service.name(), service.project());
    let is_default = service.project() == PROJECT_DEFAULT;
    let names = is_default.then(|| service.name()).into_iter().chain([long.as_str()]);
    let is_left = |name: &&str| revoked.iter().all(|one| one.as_str() != *name);
    let left = names.filter(is_left).map(regex::escape);
    let of_instance =
        |one: &'_ ProxyName| one.as_str().strip_prefix(&long)?.strip_prefix('.').map(str::to_owned);
    let instances: BTreeSet<String> = revoked.iter().filter_map(of_instance).collect();
    let instances = all_but(&instances.iter().map(String::as_str).collect());
    let instances = instances.map(|others| format!(r"{}\.{others}", regex::escape(&long)));
    let names: Vec<String> = left.chain(instances).collect();
    format!("(?:{})", names.join("|"))
}

/// By this a caller says who it is before the handshake; its certificate has to prove it.
pub fn spoken_name(service: &ServiceName) -> String {
    format!("{}.{}", service.name(), service.project())
}

/// For connections to `service`: we show who we are, and insist that it is the service. Where the other side
/// tells callers apart before the handshake, we are `caller`.
pub fn upstream(
    trust_domain: Option<&TrustDomain>,
    service: &ServiceName,
    caller: Option<&ServiceName>,
    revoked: &Revoked,
) -> TransportSocket {
    let validation = combined(vec![proxies_of(service, trust_domain, revoked)]);
    let context = tls::UpstreamTlsContext {
        common_tls_context: Some(common(validation)),
        sni: caller.map(spoken_name).unwrap_or_default(),
        ..Default::default()
    };
    socket(pack_any(context))
}

/// Whoever proves to be a proxy of a service, and is not disabled.
pub fn proxies_of(
    service: &ServiceName,
    trust_domain: Option<&TrustDomain>,
    revoked: &Revoked,
) -> tls::SubjectAltNameMatcher {
    uri(identity_regex(trust_domain, service, revoked))
}

/// Whoever proves to be somebody else than those who are disabled; empty if nobody is. `None` where there are too many
/// to tell.
pub fn all_but_revoked(revoked: &Revoked) -> Option<Vec<tls::SubjectAltNameMatcher>> {
    if revoked.is_empty() {
        return Some(Vec::new());
    }
    let paths: Vec<String> = revoked.names().map(path).collect();
    let others = all_but(&paths.iter().map(String::as_str).collect())?;
    // A name is refused in whichever trust domain: so does the server.
    Some(vec![uri(format!("spiffe://[^/]+/{others}"))])
}

/// What follows the trust domain in the SPIFFE id of a proxy.
pub fn path(proxy: &ProxyName) -> String {
    format!("{}/{proxy}", Role::Proxy)
}

fn uri(regex: String) -> tls::SubjectAltNameMatcher {
    tls::SubjectAltNameMatcher {
        san_type: tls::subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(regex_string(regex)),
        ..Default::default()
    }
}

/// A certificate of our roots that has one of these names.
fn combined(names: Vec<tls::SubjectAltNameMatcher>) -> ValidationContextType {
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(tls::CertificateValidationContext {
            match_typed_subject_alt_names: names,
            ..Default::default()
        }),
        validation_context_sds_secret_config: Some(secret(ROOTS_NAME)),
        ..Default::default()
    })
}

/// For connections from others: nobody without a certificate of our roots, and only those with one of these names
/// where some are given.
pub fn downstream(names: Vec<tls::SubjectAltNameMatcher>) -> TransportSocket {
    let validation = match names.is_empty() {
        true => ValidationContextType::ValidationContextSdsSecretConfig(secret(ROOTS_NAME)),
        false => combined(names),
    };
    let context = tls::DownstreamTlsContext {
        common_tls_context: Some(common(validation)),
        require_client_certificate: Some(BoolValue { value: true }),
        ..Default::default()
    };
    socket(pack_any(context))
}

fn common(validation: ValidationContextType) -> tls::CommonTlsContext {
    tls::CommonTlsContext {
        tls_params: Some(tls::TlsParameters {
            tls_minimum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv12.into(),
            tls_maximum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13.into(),
            ..Default::default()
        }),
        tls_certificate_sds_secret_configs: vec![secret(CERTIFICATE_NAME)],
        validation_context_type: Some(validation),
        ..Default::default()
    }
}

fn secret(name: &str) -> tls::SdsSecretConfig {
    tls::SdsSecretConfig { name: name.to_owned(), sds_config: Some(from_ads()) }
}

fn socket(config: envoy_types::pb::google::protobuf::Any) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(config)),
    }
}

#[cfg(test)]
mod tests;

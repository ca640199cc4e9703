//! Who may, in the words of the filters that ask.
use super::regex_string;
use super::routes::header_matchers;
use super::tls::{self, identity_regex};
use crate::catalog::{Admittance, Grant};
use crate::names::ProxyName;
use crate::topology::{HttpMatch, Revoked};
use envoy_types::pb::envoy::config::rbac::v3 as rbac;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use matcher::string_matcher::MatchPattern;
use orrery_pki::TrustDomain;
use rbac::principal::Identifier;

/// What every SPIFFE id begins with. Envoy compares names of hosts and the subject too; none of them begins so.
const SCHEME: &str = "spiffe://";

/// All grants are one policy, because several would be a map, and a map has no order: the same
/// rules must always be the same bytes. Without any policy the filter lets nobody through.
pub fn rules(
    admittance: &Admittance,
    trust_domain: Option<&TrustDomain>,
    revoked: &Revoked,
) -> rbac::Rbac {
    let principals: Vec<rbac::Principal> = match admittance {
        Admittance::Anyone if revoked.is_empty() => vec![principal(Identifier::Any(true))],
        Admittance::Anyone => vec![all_but(revoked)],
        Admittance::Only(grants) => {
            grants.iter().map(|one| grant(one, trust_domain, revoked)).collect()
        }
    };
    let policy = rbac::Policy {
        permissions: vec![rbac::Permission { rule: Some(rbac::permission::Rule::Any(true)) }],
        principals,
        ..Default::default()
    };
    let policies = Some(policy).filter(|policy| !policy.principals.is_empty());
    rbac::Rbac {
        action: rbac::rbac::Action::Allow.into(),
        policies: policies.into_iter().map(|policy| ("grants".to_owned(), policy)).collect(),
        ..Default::default()
    }
}

/// In whichever trust domain: so does the server. Names are looked for in SPIFFE ids only, so whoever has none cannot
/// be told from those who are disabled, and is kept out with them.
fn all_but(revoked: &Revoked) -> rbac::Principal {
    let named = proven(matcher::StringMatcher {
        match_pattern: Some(MatchPattern::Prefix(SCHEME.to_owned())),
        ..Default::default()
    });
    let ending = |proxy: &ProxyName| matcher::StringMatcher {
        match_pattern: Some(MatchPattern::Suffix(format!("/{}", tls::path(proxy)))),
        ..Default::default()
    };
    let names = revoked.names().map(|proxy| proven(ending(proxy)));
    all_of(vec![named, principal(Identifier::NotId(Box::new(any_of(names.collect()))))])
}

fn proven(name: matcher::StringMatcher) -> rbac::Principal {
    let authenticated = rbac::principal::Authenticated { principal_name: Some(name) };
    principal(Identifier::Authenticated(authenticated))
}

fn grant(grant: &Grant, trust_domain: Option<&TrustDomain>, revoked: &Revoked) -> rbac::Principal {
    let regex = |source| regex_string(identity_regex(trust_domain, source, revoked));
    let sources = grant.sources.iter().map(|source| proven(regex(source)));
    let sources = any_of(sources.collect());
    match &grant.rules {
        None => sources,
        Some(rules) => all_of(vec![sources, any_of(rules.iter().map(request).collect())]),
    }
}

/// What a request looks like; the filter takes that for a part of who asks.
fn request(one: &HttpMatch) -> rbac::Principal {
    let path = one.path_regex.as_ref().map(|regex| {
        let path = regex_string(format!("(?:{regex}).*"));
        let rule = Some(matcher::path_matcher::Rule::Path(path));
        principal(Identifier::UrlPath(matcher::PathMatcher { rule }))
    });
    let headers = header_matchers(one).into_iter().map(|one| principal(Identifier::Header(one)));
    let parts: Vec<_> = path.into_iter().chain(headers).collect();
    if parts.is_empty() { principal(Identifier::Any(true)) } else { all_of(parts) }
}

fn any_of(ids: Vec<rbac::Principal>) -> rbac::Principal {
    principal(Identifier::OrIds(rbac::principal::Set { ids }))
}

fn all_of(ids: Vec<rbac::Principal>) -> rbac::Principal {
    principal(Identifier::AndIds(rbac::principal::Set { ids }))
}

fn principal(identifier: Identifier) -> rbac::Principal {
    rbac::Principal { identifier: Some(identifier) }
}

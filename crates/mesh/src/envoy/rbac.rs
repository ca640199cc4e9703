//! Who may, in the words of the filters that ask.
use super::regex_string;
use super::routes::header_matchers;
use super::tls::identity_regex;
use crate::catalog::{Admittance, Grant};
use crate::topology::HttpMatch;
use envoy_types::pb::envoy::config::rbac::v3 as rbac;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher;
use orrery_pki::TrustDomain;
use rbac::principal::Identifier;

/// All grants are one policy, because several would be a map, and a map has no order: the same
/// rules must always be the same bytes. Without any policy the filter lets nobody through.
pub fn rules(admittance: &Admittance, trust_domain: Option<&TrustDomain>) -> rbac::Rbac {
    let principals: Vec<rbac::Principal> = match admittance {
        Admittance::Anyone => vec![principal(Identifier::Any(true))],
        Admittance::Only(grants) => grants.iter().map(|one| grant(one, trust_domain)).collect(),
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

fn grant(grant: &Grant, trust_domain: Option<&TrustDomain>) -> rbac::Principal {
    let sources = grant.sources.iter().map(|source| {
        let name = regex_string(identity_regex(trust_domain, source));
        principal(Identifier::Authenticated(rbac::principal::Authenticated {
            principal_name: Some(name),
        }))
    });
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

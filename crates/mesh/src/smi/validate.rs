//! What the options of a field cannot say.
use super::headers::headers;
use crate::expression;
use orrery_api::{Object, Violation};
use orrery_proto::smi::access::v1alpha4::IdentityBinding;
use orrery_proto::smi::specs::v1alpha4::{HttpMatch, HttpRouteGroup};
use std::collections::BTreeSet;

/// Names are unique; expressions and headers can be read.
pub fn http_route_group(object: &Object, _: Option<&Object>) -> Vec<Violation> {
    let Ok(group) = object.typed::<HttpRouteGroup>() else { return Vec::new() };
    let matches = group.spec.map(|spec| spec.matches).unwrap_or_default();
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for (index, one) in matches.iter().enumerate() {
        let path = format!("spec.matches[{index}]");
        if !names.insert(one.name()) {
            let why = "must be unique within the group";
            found.push(Violation::invalid(format!("{path}.name"), one.name(), why));
        }
        found.extend(problems(&path, one));
    }
    found
}

fn problems(path: &str, one: &HttpMatch) -> Vec<Violation> {
    let mut found = Vec::new();
    if let Some(why) = unreadable(one.path_regex()) {
        found.push(Violation::invalid(format!("{path}.pathRegex"), one.path_regex(), &why));
    }
    let Some(value) = &one.headers else { return found };
    let Some(headers) = headers(value) else {
        let why = "must be an object of texts, or a list of such objects";
        found.push(Violation::invalid(format!("{path}.headers"), "headers", why));
        return found;
    };
    for (name, regex) in headers {
        if !expression::is_header(&name) {
            let why = "must be the name of a header";
            found.push(Violation::invalid(format!("{path}.headers"), &name, why));
        }
        if let Some(why) = unreadable(&regex) {
            found.push(Violation::invalid(format!("{path}.headers[{name}]"), &regex, &why));
        }
    }
    found
}

fn unreadable(regex: &str) -> Option<String> {
    let why = expression::problem(regex)?;
    Some(format!("must be a regular expression that proxies read (RE2): {why}"))
}

/// A set of identities is chosen by labels or by account, not both.
pub fn identity_binding(object: &Object, _: Option<&Object>) -> Vec<Violation> {
    let Ok(binding) = object.typed::<IdentityBinding>() else { return Vec::new() };
    let Some(schemes) = binding.spec.and_then(|spec| spec.schemes) else { return Vec::new() };
    if schemes.service_account.is_some() && !schemes.pod_label_selectors.is_empty() {
        let why = "must not stand beside podLabelSelectors: choose one of them";
        let account = schemes.service_account();
        return vec![Violation::invalid("spec.schemes.serviceAccount", account, why)];
    }
    Vec::new()
}

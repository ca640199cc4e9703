//! What the definitions cannot say with options alone.
use crate::plan::Bound;
use orrery_api::{LabelSelector, Object, Reason, Violation};
use orrery_proto::infra::v1::{MachineClass, MachineDeployment, MachineSet, MachineTemplate};

/// The secret of a class is named where its project is known: a driver must not be sent to another's.
pub fn class(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read has been refused by then, with its own words.
    let Ok(class) = object.typed::<MachineClass>() else { return Vec::new() };
    let fields = class.spec.and_then(|spec| spec.provider_spec).unwrap_or_default().fields;
    if !fields.contains_key("secretRef") {
        return Vec::new();
    }
    let why = "must not be given: name the secret in spec.secret";
    vec![Violation::new("spec.providerSpec.secretRef", Reason::Forbidden, why)]
}

pub fn set(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(set) = object.typed::<MachineSet>() else { return Vec::new() };
    let Some(spec) = set.spec else { return Vec::new() };
    let mut found = bounds(&[("maxUnhealthy", spec.max_unhealthy())]);
    found.extend(spec.template.as_ref().map(labels).unwrap_or_default());
    found
}

pub fn deployment(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(deployment) = object.typed::<MachineDeployment>() else { return Vec::new() };
    let Some(spec) = deployment.spec else { return Vec::new() };
    let mut found = bounds(&[
        ("maxSurge", spec.max_surge()),
        ("maxUnavailable", spec.max_unavailable()),
        ("maxUnhealthy", spec.max_unhealthy()),
    ]);
    found.extend(spec.template.as_ref().map(labels).unwrap_or_default());
    found
}

fn bounds(fields: &[(&str, &str)]) -> Vec<Violation> {
    let bad = |(field, text): &(&str, &str)| {
        let error = text.parse::<Bound>().err().filter(|_| !text.is_empty())?;
        Some(Violation::invalid(
            format!("spec.{field}"),
            format_args!("{text:?}"),
            &error.to_string(),
        ))
    };
    fields.iter().filter_map(bad).collect()
}

/// Labels that no machine could carry would be noticed only when machines are made.
fn labels(template: &MachineTemplate) -> Vec<Violation> {
    let bad = |(key, value): (&String, &String)| {
        let error = LabelSelector::parse(&format!("{key}={value}")).err()?;
        let path = format!("spec.template.labels[{key}]");
        Some(Violation::invalid(path, format_args!("{value:?}"), &error.to_string()))
    };
    template.labels.iter().filter_map(bad).collect()
}

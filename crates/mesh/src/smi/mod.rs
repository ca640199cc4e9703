//! The kinds of the Service Mesh Interface: their versions, and what must hold beyond their shape.
//!
//! ```text
//!   v1alpha1 ──┐
//!   v1alpha2 ──┼─ convert (nothing is lost) ─> v1alpha4, which is stored ─> crate::declared
//!   v1alpha3 ──┘
//! ```
//! Only this module knows that there are older versions.
mod convert;
mod headers;
mod quantity;
mod validate;

pub use headers::headers;

use convert::Reshape;
use orrery_api::SchemeBuilder;
use std::sync::Arc;

/// The versions that are converted, and how their shape differs.
const SPOKES: &[(&str, Reshape)] = &[
    ("smi.split.v1alpha1.TrafficSplit", Reshape::SPEC),
    ("smi.split.v1alpha2.TrafficSplit", Reshape::SPEC),
    ("smi.split.v1alpha3.TrafficSplit", Reshape::SPEC),
    (
        "smi.access.v1alpha1.TrafficTarget",
        Reshape { renamed: &[("specs", "rules")], ..Reshape::TOP },
    ),
    ("smi.access.v1alpha2.TrafficTarget", Reshape::SPEC),
    ("smi.access.v1alpha3.TrafficTarget", Reshape::SPEC),
    ("smi.specs.v1alpha1.HTTPRouteGroup", Reshape::TOP),
    ("smi.specs.v1alpha2.HTTPRouteGroup", Reshape::TOP),
    ("smi.specs.v1alpha3.HTTPRouteGroup", Reshape::SPEC),
    ("smi.specs.v1alpha1.TCPRoute", Reshape::TOP),
    ("smi.specs.v1alpha2.TCPRoute", Reshape::TOP),
    ("smi.specs.v1alpha3.TCPRoute", Reshape::SPEC),
];

/// Adds the kinds in all their versions.
pub fn register(builder: SchemeBuilder) -> SchemeBuilder {
    let builder = builder
        .descriptors(orrery_proto::SMI_DESCRIPTOR_SET)
        .validator("smi.specs.v1alpha4.HTTPRouteGroup", validate::http_route_group)
        .validator("smi.access.v1alpha4.IdentityBinding", validate::identity_binding);
    let add = |builder: SchemeBuilder, (name, reshape): &(&str, Reshape)| {
        builder.convertor(name, Arc::new(*reshape))
    };
    SPOKES.iter().fold(builder, add)
}

#[cfg(test)]
mod tests;

//! Every resource type of the provider, by its name.
use super::{Object, Style, blocks, data_source, resource};
use crate::value::{Type, Value};
use orrery_api::{Kind, Scheme, SchemeError};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// What the names of types begin with, and those of the older style.
const PREFIX: &str = "orrery";
const CLASSIC: &str = "orrery_classic";

/// The kinds that this build knows, under Terraform's names.
pub struct Catalog {
    pub resources: BTreeMap<String, ResourceType>,
    pub data_sources: BTreeMap<String, ResourceType>,
}

/// A kind as Terraform sees it. What it looks like is worked out when it is first needed.
pub struct ResourceType {
    pub name: String,
    pub kind: Arc<Kind>,
    pub style: Style,
    make: fn(&Kind) -> Object,
    object: OnceLock<(Object, Type)>,
}

impl std::fmt::Debug for ResourceType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Catalog {
    pub fn build() -> Result<Self, SchemeError> {
        let scheme = Scheme::builder()
            .stored_versions_alone()
            .descriptors(orrery_proto::FILE_DESCRIPTOR_SET)
            .descriptors(orrery_proto::SMI_DESCRIPTOR_SET)
            .build()?;
        Ok(Self::of(&scheme))
    }

    fn of(scheme: &Scheme) -> Self {
        let (mut resources, mut data_sources) = (BTreeMap::new(), BTreeMap::new());
        let styles = [(PREFIX, Style::Attributes), (CLASSIC, Style::Blocks)];
        for (kind, (prefix, style)) in
            scheme.kinds().flat_map(|kind| styles.map(|style| (kind, style)))
        {
            let name = type_name(scheme, prefix, kind);
            let entry = |make| ResourceType {
                name: name.clone(),
                kind: kind.clone(),
                style,
                make,
                object: OnceLock::new(),
            };
            if !kind.server_owned() {
                resources.insert(name.clone(), entry(resource));
            }
            data_sources.insert(name.clone(), entry(data_source));
        }
        Self { resources, data_sources }
    }
}

impl ResourceType {
    pub fn object(&self) -> &Object {
        &self.made().0
    }

    /// The type of its values.
    pub fn r#type(&self) -> &Type {
        &self.made().1
    }

    fn made(&self) -> &(Object, Type) {
        self.object.get_or_init(|| {
            let object = (self.make)(&self.kind);
            let r#type = object.r#type();
            (object, r#type)
        })
    }

    /// A value of the host's, as the provider works with it.
    pub fn taken(&self, value: Value) -> Value {
        match self.style {
            Style::Attributes => value,
            Style::Blocks => blocks::taken(self.object(), value),
        }
    }

    /// A value of the provider's, as the host expects it.
    pub fn given(&self, value: Value) -> Value {
        match self.style {
            Style::Attributes => value,
            Style::Blocks => blocks::given(self.object(), value),
        }
    }

    /// What the kind is for.
    pub fn description(&self) -> &str {
        &self.kind.schema().root().doc
    }

    /// Whether somebody looks at its objects and says how they are.
    pub fn reports(&self) -> bool {
        let has = |path: &str| self.kind.schema().field(path).is_some();
        has("status.observedGeneration") && has("status.conditions")
    }
}

/// `orrery_machine_class`; with its group where two groups have a kind of one name.
fn type_name(scheme: &Scheme, prefix: &str, kind: &Kind) -> String {
    let shared = scheme.kinds().filter(|other| other.kind() == kind.kind()).count() > 1;
    let group = kind.group().split('.').next().unwrap_or_default();
    let name = snake(kind.kind());
    if shared { format!("{prefix}_{}_{name}", snake(group)) } else { format!("{prefix}_{name}") }
}

/// `HTTPRouteGroup` as `http_route_group`.
fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || after.is_some_and(|after| after.is_lowercase())
            });
        if begins {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text.replace('-', "_")
}

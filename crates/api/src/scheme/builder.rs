//! Registration: from descriptors and functions to a [`Scheme`], or to all that is wrong.
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use prost_reflect::DescriptorPool;

use super::{DEFAULT_GROUP_SUFFIX, RegistrationError, Scheme, SchemeError};
use crate::{
    convert::{Convertor, Spoke},
    kind::{Defaulter, Kind, Validator},
    schema::rules_of_kind,
    validate::is_name,
};

/// Collects what a [`Scheme`] is made of. Nothing fails before [`SchemeBuilder::build`].
#[derive(Default)]
pub struct SchemeBuilder {
    suffix: Option<String>,
    pools: Vec<DescriptorPool>,
    defaulters: Vec<(String, Defaulter)>,
    validators: Vec<(String, Validator)>,
    convertors: Vec<(String, Arc<dyn Convertor>)>,
    spokes: Vec<PartedSpoke>,
    problems: Vec<RegistrationError>,
    stored_alone: bool,
}

struct PartedSpoke {
    hub: String,
    name: String,
    parts: Vec<String>,
    convertor: Arc<dyn Convertor>,
}

impl SchemeBuilder {
    /// What follows every group, for installations under another name.
    pub fn group_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.suffix = Some(suffix.into());
        self
    }

    /// Leaves out the other versions of kinds: for those who speak the stored ones alone, and convert nothing.
    pub fn stored_versions_alone(mut self) -> Self {
        self.stored_alone = true;
        self
    }

    /// Adds every kind of a descriptor pool.
    pub fn pool(mut self, pool: DescriptorPool) -> Self {
        self.pools.push(pool);
        self
    }

    /// Adds every kind of an encoded descriptor set, such as `orrery_proto::FILE_DESCRIPTOR_SET`.
    pub fn descriptors(mut self, bytes: &[u8]) -> Self {
        match DescriptorPool::decode(bytes) {
            Ok(pool) => self.pools.push(pool),
            Err(error) => self.problems.push(RegistrationError::Descriptors(error.to_string())),
        }
        self
    }

    /// Adds a defaulting function to the hub kind with this message name.
    pub fn defaulter(mut self, full_name: &str, defaulter: Defaulter) -> Self {
        self.defaulters.push((full_name.to_owned(), defaulter));
        self
    }

    /// Adds a validating function to the kind with this message name.
    pub fn validator(mut self, full_name: &str, validator: Validator) -> Self {
        self.validators.push((full_name.to_owned(), validator));
        self
    }

    /// Sets the convertor of a kind whose definition says `spoke_of`.
    pub fn convertor(mut self, full_name: &str, convertor: Arc<dyn Convertor>) -> Self {
        self.convertors.push((full_name.to_owned(), convertor));
        self
    }

    /// Adds a view of a hub kind that consists of one or several stored resources.
    pub fn spoke(
        mut self,
        hub: &str,
        name: &str,
        parts: &[&str],
        convertor: Arc<dyn Convertor>,
    ) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        self.spokes.push(PartedSpoke { hub: hub.into(), name: name.into(), parts, convertor });
        self
    }

    /// Makes the scheme, or says everything that is wrong.
    pub fn build(mut self) -> Result<Scheme, SchemeError> {
        let suffix = self.suffix.take().unwrap_or_else(|| DEFAULT_GROUP_SUFFIX.to_owned());
        if !suffix.split('.').all(is_name) {
            self.problems.push(RegistrationError::Suffix(suffix.clone()));
        }
        let mut kinds = self.compile(&suffix);
        self.add_functions(&mut kinds);
        let mut kinds: Vec<Arc<Kind>> = kinds.into_values().map(Arc::new).collect();
        kinds.sort_by_cached_key(|kind| sort_key(kind));
        self.problems.extend(duplicates(&kinds));
        let spokes = self.link_spokes(&kinds);
        if !self.problems.is_empty() {
            return Err(SchemeError { problems: self.problems });
        }
        Ok(Scheme { suffix, kinds, spokes, by_name: <_>::default() }.with_names())
    }

    /// Kinds by their message name. A message that several pools hold is one kind.
    fn compile(&mut self, suffix: &str) -> BTreeMap<String, Kind> {
        let mut kinds = BTreeMap::new();
        for message in self.pools.iter().flat_map(DescriptorPool::all_messages) {
            if kinds.contains_key(message.full_name()) {
                continue;
            }
            match rules_of_kind(&message) {
                Err(problem) => self.problems.push(problem),
                Ok(None) => {}
                Ok(Some(rules)) if self.stored_alone && !rules.spoke_of.is_empty() => {}
                Ok(Some(rules)) => match Kind::build(&message, rules, suffix) {
                    Ok(kind) => drop(kinds.insert(message.full_name().to_owned(), kind)),
                    Err(problems) => self.problems.extend(problems),
                },
            }
        }
        kinds
    }

    fn add_functions(&mut self, kinds: &mut BTreeMap<String, Kind>) {
        for (name, defaulter) in &self.defaulters {
            match kinds.get_mut(name) {
                None => self.problems.push(unknown("a defaulter", name)),
                Some(kind) if kind.spoke_of().is_some() => {
                    self.problems.push(RegistrationError::DefaulterOfSpoke(name.clone()));
                }
                Some(kind) => kind.defaulters.push(*defaulter),
            }
        }
        for (name, validator) in &self.validators {
            match kinds.get_mut(name) {
                None => self.problems.push(unknown("a validator", name)),
                Some(kind) => kind.validators.push(*validator),
            }
        }
    }

    fn link_spokes(&mut self, kinds: &[Arc<Kind>]) -> HashMap<String, Vec<Arc<Spoke>>> {
        let find = |name: &str| kinds.iter().find(|kind| kind.full_name() == name).cloned();
        let mut spokes: HashMap<String, Vec<Arc<Spoke>>> = HashMap::new();
        for link in self.links(kinds) {
            let parts: Option<Vec<Arc<Kind>>> = link.parts.iter().map(|part| find(part)).collect();
            let (Some(hub), Some(parts)) = (find(&link.hub), parts) else {
                let name = format!("{} with parts {}", link.hub, link.parts.join(", "));
                self.problems.push(unknown("a spoke", &name));
                continue;
            };
            if let Err(error) = link.convertor.init(&hub, &parts) {
                let problem = error.to_string();
                self.problems.push(RegistrationError::Convertor { name: link.name, problem });
                continue;
            }
            let spoke = Spoke { name: link.name, hub, parts, convertor: link.convertor };
            spokes.entry(link.hub).or_default().push(Arc::new(spoke));
        }
        spokes
    }

    /// The spokes of several parts and those that are versions of one kind.
    fn links(&mut self, kinds: &[Arc<Kind>]) -> Vec<PartedSpoke> {
        let mut links = std::mem::take(&mut self.spokes);
        let mut convertors: HashMap<String, Arc<dyn Convertor>> =
            self.convertors.drain(..).collect();
        for kind in kinds {
            let Some(hub) = kind.spoke_of() else { continue };
            let Some(convertor) = convertors.remove(kind.full_name()) else {
                self.problems.push(RegistrationError::NoConvertor(kind.full_name().to_owned()));
                continue;
            };
            links.push(PartedSpoke {
                hub: hub.to_owned(),
                name: kind.version().to_owned(),
                parts: vec![kind.full_name().to_owned()],
                convertor,
            });
        }
        for name in convertors.into_keys() {
            self.problems.push(match kinds.iter().any(|kind| kind.full_name() == name) {
                true => RegistrationError::NotASpoke(name),
                false => unknown("a convertor", &name),
            });
        }
        links
    }
}

fn unknown(what: &'static str, name: &str) -> RegistrationError {
    RegistrationError::UnknownKind { what, name: name.to_owned() }
}

/// Group, kind, then the stored version before the others, then newer before older.
fn sort_key(kind: &Kind) -> (String, String, bool, std::cmp::Reverse<VersionRank>) {
    let spoke = kind.spoke_of().is_some();
    let rank = std::cmp::Reverse(version_rank(kind.version()));
    (kind.group().to_owned(), kind.kind().to_owned(), spoke, rank)
}

/// Stability (alpha, beta, stable) before number, as the Kubernetes dialect orders versions.
type VersionRank = (u8, u64, u64);

fn version_rank(version: &str) -> VersionRank {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (major, stage) = rest.split_at(digits);
    let major = major.parse().unwrap_or(0);
    let number = |text: &str| text.parse().unwrap_or(0);
    if stage.is_empty() {
        (2, major, 0)
    } else if let Some(minor) = stage.strip_prefix("beta") {
        (1, major, number(minor))
    } else {
        (0, major, number(stage.strip_prefix("alpha").unwrap_or_default()))
    }
}

/// Names that lead to two kinds where they must lead to one.
fn duplicates(kinds: &[Arc<Kind>]) -> Vec<RegistrationError> {
    let mut seen: HashMap<(&'static str, String), &Kind> = HashMap::new();
    let mut found = Vec::new();
    for kind in kinds {
        let family = format!("{}.{}", kind.kind(), kind.group());
        let mut names = vec![
            ("kind", format!("{} {}", kind.api_version(), kind.kind()), String::new()),
            ("plural", format!("{} {}", kind.api_version(), kind.plural()), String::new()),
        ];
        let shorts = kind.short_names().iter();
        names.extend(shorts.map(|short| ("short name", short.clone(), family.clone())));
        for (what, name, family) in names {
            let Some(first) = seen.insert((what, name.clone()), kind) else { continue };
            // Versions of one kind share their short names.
            if !family.is_empty() && family == format!("{}.{}", first.kind(), first.group()) {
                continue;
            }
            found.push(RegistrationError::Duplicate {
                what,
                name,
                first: first.full_name().to_owned(),
                second: kind.full_name().to_owned(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_and_stabler_versions_come_first() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "v1", "v10", "v1beta10", "odd"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "odd"]);
    }
}

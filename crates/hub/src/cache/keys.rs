//! What answers are kept by: the options that they were asked for with.
use crate::options::{GetOptions, ListOptions, ObjectName};

/// A get, as far as its answer depends on it. Kinds that are kept elsewhere cannot be shared, so it does not matter
/// whether shared ones are asked for too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GetKey {
    pub name: ObjectName,
    pub include_lineage: bool,
}

/// A list, as far as its answer depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListKey {
    pub project: Option<String>,
    pub labels: String,
    pub fields: String,
    pub limit: usize,
    pub include_lineage: bool,
}

/// A key of one of the groups of a storage.
pub trait CacheKey: Clone + Eq + std::hash::Hash + Send + Sync + 'static {
    /// The keys whose answers may be others when this object changes; `None` where only a look at each tells.
    fn all_of(name: &ObjectName) -> Option<Vec<Self>>;

    /// Whether the answer may be another when this object changes.
    fn concerns(&self, name: &ObjectName) -> bool;

    /// The same key as text, by which it gets its owner among servers.
    fn text(&self) -> String;
}

impl GetKey {
    /// `None` for what is not kept.
    pub fn of(options: &GetOptions) -> Option<Self> {
        let GetOptions { name, include_lineage, include_shared: _, version } = options;
        let key = Self { name: name.clone(), include_lineage: *include_lineage };
        version.is_none().then_some(key)
    }
}

impl ListKey {
    /// `None` for what is not kept: a part of a list belongs to the moment of its beginning, which the upstream
    /// remembers for a while only.
    pub fn of(options: &ListOptions) -> Option<Self> {
        let whole = options.continue_from.is_none() && options.at.is_none();
        whole.then(|| Self {
            project: options.project.clone(),
            labels: options.labels.to_string(),
            fields: options.fields.to_string(),
            limit: options.limit,
            include_lineage: options.include_lineage,
        })
    }
}

impl CacheKey for GetKey {
    fn all_of(name: &ObjectName) -> Option<Vec<Self>> {
        let key = |include_lineage| Self { name: name.clone(), include_lineage };
        Some(vec![key(false), key(true)])
    }

    fn concerns(&self, name: &ObjectName) -> bool {
        self.name == *name
    }

    fn text(&self) -> String {
        format!("get {} {}", self.name, self.include_lineage)
    }
}

impl CacheKey for ListKey {
    fn all_of(_: &ObjectName) -> Option<Vec<Self>> {
        None
    }

    /// Labels and fields may be others than before, so they do not tell.
    fn concerns(&self, name: &ObjectName) -> bool {
        self.project.as_ref().is_none_or(|project| *project == name.project)
    }

    fn text(&self) -> String {
        let Self { project, labels, fields, limit, include_lineage } = self;
        let project = project.as_deref().unwrap_or("*");
        format!("list {project} {labels:?} {fields:?} {limit} {include_lineage}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_store::Revision;

    #[test]
    fn options_that_change_the_answer_are_part_of_the_key() {
        let name = ObjectName::new("shop", "a");
        let plain = GetKey::of(&name.clone().into()).expect("it is kept");
        let lineage = GetOptions { include_lineage: true, ..name.clone().into() };
        assert_ne!(GetKey::of(&lineage), Some(plain.clone()));
        let shared = GetOptions { include_shared: true, ..name.clone().into() };
        assert_eq!(GetKey::of(&shared), Some(plain), "nothing of these kinds is shared");
        let version = GetOptions { version: Some("1".into()), ..name.into() };
        assert_eq!(GetKey::of(&version), None);

        let list = |project: Option<&str>, limit| ListOptions {
            project: project.map(str::to_owned),
            limit,
            ..ListOptions::default()
        };
        let texts = [list(None, 0), list(None, 5), list(Some("shop"), 0), list(Some("*"), 5)];
        let keys: Vec<_> = texts.iter().filter_map(ListKey::of).collect();
        assert_eq!(keys.len(), 4);
        assert_eq!(std::collections::HashSet::<_>::from_iter(&keys).len(), 4);
        let later = ListOptions { continue_from: Some("x".into()), ..ListOptions::default() };
        let then = ListOptions { at: Some(Revision(3)), ..ListOptions::default() };
        assert_eq!((ListKey::of(&later), ListKey::of(&then)), (None, None));
    }

    #[test]
    fn a_change_concerns_the_object_and_the_lists_that_may_hold_it() {
        let changed = ObjectName::new("shop", "a");
        let get = |name: ObjectName| GetKey::of(&name.into()).expect("it is kept");
        assert!(get(changed.clone()).concerns(&changed));
        assert!(!get(ObjectName::new("shop", "b")).concerns(&changed));
        let all = GetKey::all_of(&changed).expect("they are few");
        assert!(
            all.iter().all(|key| key.concerns(&changed)) && all.contains(&get(changed.clone()))
        );
        let list = |project: Option<&str>| {
            let project = project.map(str::to_owned);
            ListKey::of(&ListOptions { project, ..ListOptions::default() }).expect("it is kept")
        };
        assert!(list(None).concerns(&changed) && list(Some("shop")).concerns(&changed));
        assert!(!list(Some("other")).concerns(&changed));
    }
}

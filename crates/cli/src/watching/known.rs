//! What is known of the resources of one watch: pure.
//!
//! When a watch begins again, everything is told once more; people want to hear what is different.
use super::{Change, key};
use serde_json::Value;
use std::collections::BTreeMap;

type Objects = BTreeMap<(String, String), Value>;

/// Something that people have not been told yet.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    Is(Value),
    Gone(Value),
}

pub struct Known {
    objects: Objects,
    /// What has been told of a list that is not complete yet.
    listing: Option<Objects>,
    complete: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self { objects: Objects::new(), listing: Some(Objects::new()), complete: false }
    }
}

impl Known {
    /// Whether a whole list has been told.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// In the order of a list.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Takes a change, and returns what is new. Lists are taken as a whole.
    pub fn take(&mut self, change: Change) -> Vec<News> {
        match (change, &mut self.listing) {
            (Change::Again, listing) => {
                *listing = Some(Objects::new());
                Vec::new()
            }
            (Change::Is(object), Some(listing)) => {
                listing.insert(key(&object), object);
                Vec::new()
            }
            (Change::Gone(object), Some(listing)) => {
                listing.remove(&key(&object));
                Vec::new()
            }
            (Change::Is(object), None) => {
                self.objects.insert(key(&object), object.clone());
                vec![News::Is(object)]
            }
            (Change::Gone(object), None) => {
                self.objects.remove(&key(&object));
                vec![News::Gone(object)]
            }
            (Change::Complete, listing) => {
                let listed = listing.take();
                self.complete = true;
                listed.map(|listed| self.replace(listed)).unwrap_or_default()
            }
        }
    }

    /// What is gone first, then what is there or different.
    fn replace(&mut self, listed: Objects) -> Vec<News> {
        let before = std::mem::replace(&mut self.objects, listed);
        let mut changed = Vec::new();
        for (key, object) in &self.objects {
            if before.get(key).is_none_or(|old| version(old) != version(object)) {
                changed.push(News::Is(object.clone()));
            }
        }
        let gone = before.into_iter().filter(|(key, _)| !self.objects.contains_key(key));
        gone.map(|(_, object)| News::Gone(object)).chain(changed).collect()
    }
}

fn version(object: &Value) -> (&Value, &Value) {
    let metadata = &object["metadata"];
    (&metadata["uid"], &metadata["resourceVersion"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(name: u8, version: u8) -> Value {
        json!({"metadata": {"project": "p", "name": name.to_string(), "resourceVersion": version}})
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u8),
        Delete(u8),
        /// So many of the steps before are never told.
        Miss(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..5_u8).prop_map(Step::Write),
            2 => (0..5_u8).prop_map(Step::Delete),
            1 => (0..4_usize).prop_map(Step::Miss),
        ]
    }

    /// What a watch tells of some steps, and how it is in the end.
    fn play(steps: &[Step]) -> (Vec<Change>, BTreeMap<u8, u8>) {
        let (mut changes, mut world) = (vec![Change::Complete], BTreeMap::new());
        for (at, step) in steps.iter().enumerate() {
            let version = u8::try_from(at).unwrap();
            match step {
                Step::Write(name) => {
                    world.insert(*name, version);
                    changes.push(Change::Is(object(*name, version)));
                }
                Step::Delete(name) => {
                    let old = world.remove(name);
                    changes.extend(old.map(|version| Change::Gone(object(*name, version))));
                }
                Step::Miss(count) => {
                    // A list is told to its end, so only changes after one can be missed.
                    let told = changes.iter().rposition(|c| *c == Change::Complete).unwrap() + 1;
                    changes.truncate(told.max(changes.len().saturating_sub(*count)));
                    changes.push(Change::Again);
                    let listed = world.iter().map(|(name, at)| Change::Is(object(*name, *at)));
                    changes.extend(listed);
                    changes.push(Change::Complete);
                }
            }
        }
        (changes, world)
    }

    proptest! {
        /// Whoever hears the news only knows the same as whoever looks, and hears nothing twice.
        #[test]
        fn news_tell_everything_once(steps in prop::collection::vec(step(), 0..40)) {
            let (changes, world) = play(&steps);
            let mut known = Known::default();
            let mut heard: Objects = Objects::new();
            for change in changes {
                for news in known.take(change) {
                    match news {
                        News::Is(object) => {
                            let old = heard.insert(key(&object), object.clone());
                            prop_assert_ne!(old, Some(object), "told twice");
                        }
                        News::Gone(object) => {
                            prop_assert!(heard.remove(&key(&object)).is_some(), "it was not there");
                        }
                    }
                }
            }
            let expect: Vec<Value> = world.iter().map(|(name, at)| object(*name, *at)).collect();
            prop_assert_eq!(heard.values().cloned().collect::<Vec<_>>(), expect.clone());
            prop_assert_eq!(known.objects().cloned().collect::<Vec<_>>(), expect);
        }
    }

    #[test]
    fn a_list_is_news_when_it_is_complete() {
        let mut known = Known::default();
        assert_eq!(known.take(Change::Is(object(1, 1))), []);
        assert!(!known.is_complete());
        assert_eq!(known.take(Change::Complete), [News::Is(object(1, 1))]);
        assert!(known.is_complete());
        assert_eq!(known.take(Change::Again), []);
        assert!(known.is_complete(), "what was known is shown until more is known");
        assert_eq!(known.objects().count(), 1);
        assert_eq!(known.take(Change::Complete), [News::Gone(object(1, 1))]);
    }
}

//! Who owns whom, as the watches told it. Pure.
use orrery_hub::ObjectName;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The full name of the kind's message.
    pub kind: String,
    pub name: ObjectName,
}

/// A reference from an object to one that owns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    pub uid: String,
    /// Where the owner stands; unknown when its kind is.
    pub place: Option<Place>,
    /// Whether a foreground deletion of the owner waits for the object.
    pub blocks: bool,
}

/// What a watch told of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub uid: String,
    pub owners: Vec<Link>,
    /// Whether it waits for what it owns, or for that to forget it.
    pub waits: bool,
    /// False when this is the last that was heard of it.
    pub present: bool,
}

/// The objects that have owners, found by place and by owner.
#[derive(Debug, Default)]
pub struct Graph {
    objects: BTreeMap<Place, Observed>,
    by_owner: HashMap<String, BTreeSet<Place>>,
}

impl Graph {
    /// Takes in a change, and tells which objects are to be looked at because of it.
    pub fn observe(&mut self, place: Place, seen: Observed) -> BTreeSet<Place> {
        let mut touched = BTreeSet::new();
        // Most changes are about something else. Whoever owns it tells by itself when it goes.
        if seen.present && !seen.waits && self.objects.get(&place) == Some(&seen) {
            return touched;
        }
        if !seen.present || seen.waits {
            touched.extend(self.owned_by(&seen.uid));
        }
        let old = self.forget(&place);
        if let Some(old) = &old {
            // Whoever waits for this object may have waited long enough.
            let left =
                old.owners.iter().filter(|link| !seen.present || !seen.owners.contains(link));
            touched.extend(left.filter_map(|link| link.place.clone()));
            if old.uid != seen.uid {
                touched.extend(self.owned_by(&old.uid));
            }
        }
        if seen.present {
            if seen.waits || !seen.owners.is_empty() {
                touched.insert(place.clone());
            }
            self.remember(place, seen);
        }
        touched
    }

    /// The objects that name this owner.
    pub fn owned_by(&self, uid: &str) -> BTreeSet<Place> {
        self.by_owner.get(uid).cloned().unwrap_or_default()
    }

    /// Whether anything that is there blocks the foreground deletion of this owner. Who waits for it in turn does
    /// not: objects that own each other would wait for ever.
    pub fn is_blocked(&self, place: &Place, uid: &str) -> bool {
        let blocks = |place: &&Place| {
            let owners = self.objects.get(*place).map_or(&[][..], |object| &object.owners);
            owners.iter().any(|link| link.uid == uid && link.blocks)
        };
        let places = self.by_owner.get(uid).into_iter().flatten();
        let blocking: Vec<&Place> = places.filter(blocks).collect();
        if blocking.is_empty() {
            return false;
        }
        let circle = self.waiting_for(place);
        blocking.into_iter().any(|place| !circle.contains(place))
    }

    /// Those whose foreground deletion waits for this object, and those who wait for these.
    fn waiting_for(&self, place: &Place) -> BTreeSet<Place> {
        let (mut found, mut left) = (BTreeSet::new(), vec![place]);
        while let Some(owned) = left.pop() {
            let links = self.objects.get(owned).into_iter().flat_map(|object| &object.owners);
            for link in links.filter(|link| link.blocks) {
                let Some(owner) = &link.place else { continue };
                let waits = |object: &Observed| object.waits && object.uid == link.uid;
                if self.objects.get(owner).is_some_and(waits) && found.insert(owner.clone()) {
                    left.push(owner);
                }
            }
        }
        found
    }

    /// Everything of a kind that is known, for a watch that begins anew.
    pub fn of_kind(&self, kind: &str) -> Vec<Place> {
        let mine = |place: &&Place| place.kind == kind;
        self.objects.keys().filter(mine).cloned().collect()
    }

    pub fn all(&self) -> Vec<Place> {
        self.objects.keys().cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub fn get(&self, place: &Place) -> Option<&Observed> {
        self.objects.get(place)
    }

    /// Only objects with owners are kept: the others are found when they are needed.
    fn remember(&mut self, place: Place, seen: Observed) {
        if seen.owners.is_empty() {
            return;
        }
        for link in &seen.owners {
            self.by_owner.entry(link.uid.clone()).or_default().insert(place.clone());
        }
        self.objects.insert(place, seen);
    }

    fn forget(&mut self, place: &Place) -> Option<Observed> {
        let old = self.objects.remove(place)?;
        for link in &old.owners {
            if let Some(places) = self.by_owner.get_mut(&link.uid) {
                places.remove(place);
                if places.is_empty() {
                    self.by_owner.remove(&link.uid);
                }
            }
        }
        Some(old)
    }
}

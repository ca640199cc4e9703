//! Where the copies of a workload go: pure.
//!
//! What runs stays where it is as long as its node is chosen: copies have state, and moving one
//! costs more than an even spread is worth. Only what is missing is placed, on the chosen node with
//! the fewest copies; only what is too many is taken away, from where it is missed least.
use super::volumes::{Anchor, controller_of};
use orrery_proto::apps::v1::{NodeSelector, Placement, Resources};
use orrery_proto::infra::v1::Node;
use std::collections::{BTreeMap, BTreeSet};

/// What matters about a node when copies are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub labels: BTreeMap<String, String>,
    pub ready: bool,
    pub cordoned: bool,
    /// It is to be emptied; it is cordoned then too.
    pub draining: bool,
    pub runtimes: BTreeSet<String>,
    /// What copies can still have of it; nothing when its agent does not say how much it has.
    pub free: Option<Amounts>,
    /// The id of the storage controller that serves it.
    pub controller: String,
    /// Whether that controller has registered.
    pub has_storage: bool,
}

/// Amounts of what a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub cpu_millis: i64,
    pub memory_mib: i64,
}

impl Amounts {
    /// What a copy asks for.
    pub fn requested(resources: Option<&Resources>) -> Self {
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        requests.map_or_else(Self::default, |requests| Self {
            cpu_millis: requests.cpu_millis(),
            memory_mib: requests.memory_mib(),
        })
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
        }
    }

    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.saturating_sub(other.cpu_millis),
            memory_mib: self.memory_mib.saturating_sub(other.memory_mib),
        }
    }

    /// Whether so much is there. Nothing fits everywhere, even where too much was given away.
    fn fits(self, room: Self) -> bool {
        let enough = |asked: i64, there: i64| asked == 0 || asked <= there;
        enough(self.cpu_millis, room.cpu_millis) && enough(self.memory_mib, room.memory_mib)
    }
}

/// What a copy asks of its node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs<'a> {
    /// The runtime, as agents name it.
    pub runtime: &'a str,
    pub amounts: Amounts,
    /// The volumes that it mounts.
    pub volumes: &'a [Anchor],
    /// The nodes of the workload that it is placed beside.
    pub beside: &'a [String],
}

/// One copy on one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub node: String,
    /// Tells copies on one node apart.
    pub copy: i32,
}

/// What is there when the question is asked.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// Copies that are meant to stay.
    pub staying: BTreeSet<Slot>,
    /// Copies that are being stopped; their places are not free yet.
    pub leaving: BTreeSet<Slot>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub slots: BTreeSet<Slot>,
    /// How many copies are asked for.
    pub desired: usize,
    /// Why some of them have no place, if so.
    pub shortage: Option<String>,
}

impl Seat {
    /// `used` is what copies on it have asked for.
    pub fn of(node: &Node, used: Amounts) -> Self {
        let metadata = node.metadata.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let spec = node.spec.unwrap_or_default();
        Self {
            labels: metadata.labels.into_iter().collect(),
            ready: status.state == "Ready" && metadata.deletion_timestamp.is_none(),
            cordoned: spec.unschedulable() || spec.drain(),
            draining: spec.drain(),
            runtimes: status.runtimes.into_iter().collect(),
            free: status.allocatable.map(|all| {
                let all = Amounts { cpu_millis: all.cpu_millis, memory_mib: all.memory_mib };
                all.minus(used)
            }),
            controller: controller_of(node),
            has_storage: false,
        }
    }

    /// Whether a volume is there, or can be made there.
    fn reaches(&self, volume: &Anchor) -> bool {
        match &volume.controller {
            Some(controller) => *controller == self.controller,
            None => self.has_storage,
        }
    }

    fn has_room(&self, amounts: Amounts) -> bool {
        self.free.is_none_or(|free| amounts.fits(free))
    }

    fn is_chosen_by(&self, selector: &NodeSelector) -> bool {
        selector.match_labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// Whether nothing changed that decides on copies which name this node.
    pub fn takes_like(&self, other: &Self) -> bool {
        let what = |seat: &Self| (seat.cordoned, seat.draining, seat.free);
        what(self) == what(other)
    }

    fn takes(&self, runtime: &str) -> bool {
        self.ready && !self.cordoned && self.runtimes.contains(runtime)
    }
}

/// Decides. The same question has the same answer, and the answer leaves nothing to ask.
pub fn place(
    placement: &Placement,
    needs: Needs<'_>,
    present: &Present,
    nodes: &BTreeMap<String, Seat>,
) -> Placed {
    match &placement.selector {
        None if placement.beside.is_some() => beside(needs, present, nodes),
        None => by_name(&placement.nodes, needs, present, nodes),
        Some(selector) => {
            let chosen = nodes.iter().filter(|(_, seat)| seat.is_chosen_by(selector));
            let chosen: BTreeMap<&String, &Seat> = chosen.collect();
            let reaches = |seat: &Seat| needs.volumes.iter().all(|volume| seat.reaches(volume));
            let seats = chosen.iter().filter(|(_, seat)| reaches(seat));
            let seats = seats.map(|(name, seat)| (*name, *seat)).collect();
            let choice = Choice { needs, present, chosen, seats };
            match placement.replicas {
                None => choice.one_on_each(selector),
                Some(replicas) => choice.spread(selector, usize::try_from(replicas).unwrap_or(0)),
            }
        }
    }
}

/// A node that never connected is named on purpose: it may be about to.
fn by_name(
    names: &[String],
    needs: Needs<'_>,
    present: &Present,
    nodes: &BTreeMap<String, Seat>,
) -> Placed {
    let mut placed = Placed { desired: names.len(), ..Placed::default() };
    let (mut emptied, mut closed, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for node in names {
        let slot = Slot { node: node.clone(), copy: 0 };
        let here = present.staying.contains(&slot);
        match nodes.get(node) {
            Some(seat) if seat.draining => emptied.push(format!("{node:?}")),
            Some(seat) if !here && seat.cordoned => closed.push(format!("{node:?}")),
            Some(seat) if !here && !seat.has_room(needs.amounts) => full.push(format!("{node:?}")),
            Some(_) | None => drop(placed.slots.insert(slot)),
        }
    }
    let causes = [
        ("is being emptied", emptied),
        ("cordoned, and takes nothing new", closed),
        ("has too little room", full),
    ];
    let causes = causes.into_iter().filter(|(_, nodes)| !nodes.is_empty());
    let causes: Vec<String> =
        causes.map(|(why, nodes)| format!("{why}: {}", nodes.join(", "))).collect();
    placed.shortage = (!causes.is_empty()).then(|| causes.join("; "));
    placed
}

/// Goes where the others are: whether a node takes anything new was asked when they were placed.
fn beside(needs: Needs<'_>, present: &Present, nodes: &BTreeMap<String, Seat>) -> Placed {
    let mut placed = Placed { desired: needs.beside.len(), ..Placed::default() };
    let mut full = Vec::new();
    for node in needs.beside {
        let slot = Slot { node: node.clone(), copy: 0 };
        let fits = nodes.get(node).is_none_or(|seat| seat.has_room(needs.amounts));
        match fits || present.staying.contains(&slot) {
            true => drop(placed.slots.insert(slot)),
            false => full.push(format!("{node:?}")),
        }
    }
    placed.shortage =
        (!full.is_empty()).then(|| format!("has too little room: {}", full.join(", ")));
    placed
}

/// The nodes that a selector has chosen.
struct Choice<'a> {
    needs: Needs<'a>,
    present: &'a Present,
    chosen: BTreeMap<&'a String, &'a Seat>,
    /// Those of them that reach every volume.
    seats: BTreeMap<&'a String, &'a Seat>,
}

impl Choice<'_> {
    fn kept(&self) -> BTreeSet<Slot> {
        let staying = self.present.staying.iter();
        staying.filter(|slot| self.seats.contains_key(&slot.node)).cloned().collect()
    }

    /// The nodes that take new copies.
    fn open(&self) -> impl Iterator<Item = (&String, &Seat)> {
        let takes =
            |seat: &Seat| seat.takes(self.needs.runtime) && seat.has_room(self.needs.amounts);
        self.seats.iter().filter(move |(_, seat)| takes(seat)).map(|(name, seat)| (*name, *seat))
    }

    fn one_on_each(&self, selector: &NodeSelector) -> Placed {
        let mut slots = BTreeSet::new();
        let emptied = |slot: &Slot| self.seats.get(&slot.node).is_some_and(|seat| seat.draining);
        for slot in self.kept().into_iter().filter(|slot| !emptied(slot)) {
            // Of several copies on a node, which a number of replicas may have left, the first.
            if !slots.iter().any(|kept: &Slot| kept.node == slot.node) {
                slots.insert(slot);
            }
        }
        let missing: Vec<_> =
            self.open().filter(|(node, _)| !slots.iter().any(|slot| slot.node == **node)).collect();
        for (node, _) in missing {
            let slot = self.free_slot(node, &slots);
            slots.insert(slot);
        }
        let shortage = slots.is_empty().then(|| self.why_none(selector));
        Placed { desired: slots.len(), slots, shortage }
    }

    fn spread(&self, selector: &NodeSelector, replicas: usize) -> Placed {
        let mut slots = self.kept();
        self.thin_out(&mut slots, replicas);
        self.fill_up(&mut slots, replicas);
        let shortage = (slots.len() < replicas).then(|| self.why_none(selector));
        Placed { slots, desired: replicas, shortage }
    }

    /// Takes away what is too many: first from nodes that may not run it any more, then from those
    /// that are to be emptied, then from the fullest.
    fn thin_out(&self, slots: &mut BTreeSet<Slot>, replicas: usize) {
        let weigh = |node: &String, count: usize| {
            let seat = self.seats.get(node);
            let unsure = seat.is_none_or(|seat| !seat.ready);
            (unsure, seat.is_none_or(|seat| seat.cordoned), count, node.clone())
        };
        let mut order: BTreeSet<_> =
            load(slots).iter().map(|(node, count)| weigh(node, *count)).collect();
        while replicas < slots.len() {
            let Some((_, _, count, node)) = order.pop_last() else { return };
            let Some(slot) = slots.iter().rfind(|slot| slot.node == node).cloned() else { return };
            slots.remove(&slot);
            if 1 < count {
                order.insert(weigh(&node, count - 1));
            }
        }
    }

    /// Places what is missing, always on the emptiest node.
    fn fill_up(&self, slots: &mut BTreeSet<Slot>, replicas: usize) {
        let load = load(slots);
        let count = |node: &String| load.get(node).copied().unwrap_or(0);
        let mut room: BTreeMap<&String, Option<Amounts>> =
            self.open().map(|(node, seat)| (node, seat.free)).collect();
        let mut order: BTreeSet<(usize, &String)> =
            room.keys().map(|node| (count(node), *node)).collect();
        while slots.len() < replicas {
            let Some((count, node)) = order.pop_first() else { return };
            let slot = self.free_slot(node, slots);
            slots.insert(slot);
            let left = room.entry(node).or_default();
            *left = left.map(|left| left.minus(self.needs.amounts));
            if left.is_none_or(|left| self.needs.amounts.fits(left)) {
                order.insert((count + 1, node));
            }
        }
    }

    /// The first place on a node that nothing holds, not even what is on its way out.
    fn free_slot(&self, node: &str, taken: &BTreeSet<Slot>) -> Slot {
        let mut slot = Slot { node: node.to_owned(), copy: 0 };
        while taken.contains(&slot) || self.present.leaving.contains(&slot) {
            slot.copy += 1;
        }
        slot
    }

    fn why_none(&self, selector: &NodeSelector) -> String {
        if self.chosen.is_empty() {
            let labels: BTreeMap<_, _> = selector.match_labels.iter().collect();
            let labels: Vec<String> =
                labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            return match labels.is_empty() {
                true => "there is no node".to_owned(),
                false => format!("no node has the labels {}", labels.join(",")),
            };
        }
        if self.seats.is_empty() {
            return self.why_no_volume();
        }
        let count = |which: fn(&Seat) -> bool| self.seats.values().filter(|s| which(s)).count();
        let gone = count(|seat| !seat.ready);
        let draining = count(|seat| seat.ready && seat.draining);
        let cordoned = count(|seat| seat.ready && seat.cordoned && !seat.draining);
        let runtime = self.needs.runtime;
        let open = self.seats.values().filter(|seat| seat.ready && !seat.cordoned);
        let able = open.filter(|seat| seat.runtimes.contains(runtime)).count();
        let unable = self.seats.len() - gone - draining - cordoned - able;
        let causes = [
            (gone, "not connected".to_owned()),
            (draining, "being emptied".to_owned()),
            (cordoned, "cordoned".to_owned()),
            (unable, format!("without the runtime {runtime:?}")),
            (able, "with too little room".to_owned()),
        ];
        let causes = causes.into_iter().filter(|(number, _)| 0 < *number);
        let causes: Vec<String> = causes.map(|(number, why)| format!("{number} {why}")).collect();
        let chosen = match self.chosen.len() == self.seats.len() {
            true => format!("{} chosen nodes", self.seats.len()),
            false => format!("{} chosen nodes with the volumes", self.seats.len()),
        };
        format!("{chosen} take nothing new: {}", causes.join(", "))
    }

    /// No chosen node reaches all volumes: which one stands in the way, or that they do together.
    fn why_no_volume(&self) -> String {
        let reached = |volume: &Anchor| self.chosen.values().any(|seat| seat.reaches(volume));
        if let Some(volume) = self.needs.volumes.iter().find(|volume| !reached(volume)) {
            let name = &volume.volume;
            return match &volume.controller {
                Some(controller) => format!(
                    "the volume {name} is on {controller}, and no chosen node is served by it"
                ),
                None => format!(
                    "the volume {name} has no place yet, and no chosen node has a storage controller"
                ),
            };
        }
        let place = |volume: &Anchor| match &volume.controller {
            Some(controller) => format!("{} on {controller}", volume.volume),
            None => format!("{} anywhere", volume.volume),
        };
        let places: Vec<String> = self.needs.volumes.iter().map(place).collect();
        format!("no chosen node reaches all volumes: {}", places.join(", "))
    }
}

fn load(slots: &BTreeSet<Slot>) -> BTreeMap<String, usize> {
    let mut load = BTreeMap::new();
    for slot in slots {
        *load.entry(slot.node.clone()).or_default() += 1;
    }
    load
}

#[cfg(test)]
mod tests;

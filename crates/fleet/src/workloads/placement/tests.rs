use super::*;
use proptest::prelude::*;

/// "a", "b!" (gone), "c#" (cordoned), "d?" (without the runtime), "e~" (to be emptied); in the zone z, except
/// upper case.
fn nodes(text: &str) -> BTreeMap<String, Seat> {
    let seat = |word: &str| {
        let name = word.trim_end_matches(['!', '#', '?', '~']).to_owned();
        let zone = if name.chars().all(char::is_uppercase) { "other" } else { "z" };
        let seat = Seat {
            labels: [("zone".to_owned(), zone.to_owned())].into(),
            ready: !word.ends_with('!'),
            cordoned: word.ends_with(['#', '~']),
            draining: word.ends_with('~'),
            runtimes: if word.ends_with('?') { BTreeSet::new() } else { ["process".into()].into() },
            free: None,
            controller: name.clone(),
            has_storage: !word.ends_with('?'),
        };
        (name, seat)
    };
    text.split_whitespace().map(seat).collect()
}

const PROCESS: Needs<'static> = Needs {
    runtime: "process",
    amounts: Amounts { cpu_millis: 0, memory_mib: 0 },
    volumes: &[],
    beside: &[],
};

/// "a b b1": the first copy on a, the first two on b.
fn slots(text: &str) -> BTreeSet<Slot> {
    let slot = |word: &str| {
        let node = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let copy = word[node.len()..].parse().unwrap_or(0);
        Slot { node: node.to_owned(), copy }
    };
    text.split_whitespace().map(slot).collect()
}

fn shown(slots: &BTreeSet<Slot>) -> String {
    let copy = |copy: i32| if copy == 0 { String::new() } else { copy.to_string() };
    let words: Vec<String> =
        slots.iter().map(|slot| format!("{}{}", slot.node, copy(slot.copy))).collect();
    words.join(" ")
}

fn by_label(replicas: Option<i32>) -> Placement {
    let match_labels = [("zone".to_owned(), "z".to_owned())].into();
    Placement { selector: Some(NodeSelector { match_labels }), replicas, ..Placement::default() }
}

/// Asks, and asks again with the answer carried out: then nothing changes any more.
#[track_caller]
fn ask(placement: &Placement, present: &Present, nodes: &BTreeMap<String, Seat>) -> Placed {
    let placed = place(placement, PROCESS, present, nodes);
    let carried_out = Present { staying: placed.slots.clone(), leaving: BTreeSet::new() };
    assert_eq!(place(placement, PROCESS, &carried_out, nodes), placed, "it must be at rest");
    placed
}

#[track_caller]
fn check(replicas: Option<i32>, staying: &str, seats: &str, expect: &str, shortage: Option<&str>) {
    let present = Present { staying: slots(staying), leaving: BTreeSet::new() };
    let placed = ask(&by_label(replicas), &present, &nodes(seats));
    assert_eq!(shown(&placed.slots), expect);
    assert_eq!(placed.shortage.as_deref(), shortage);
}

#[test]
fn copies_are_spread_over_the_chosen_nodes() {
    check(Some(2), "", "a b c", "a b", None);
    check(Some(3), "", "a b X", "a a1 b", None);
    check(Some(7), "", "a b c", "a a1 a2 b b1 c c1", None);
    check(Some(0), "a b", "a b", "", None);
}

#[test]
fn what_runs_stays_where_it_is() {
    check(Some(2), "b c", "a b c", "b c", None);
    check(Some(3), "c", "a b c", "a b c", None);
    check(Some(3), "a a1 a2", "a b c", "a a1 a2", None);
    check(Some(2), "a X", "a b X", "a b", None);
}

#[test]
fn what_is_too_many_goes_where_it_is_missed_least() {
    check(Some(2), "a a1 b", "a b", "a b", None);
    check(Some(2), "a b c", "a! b c", "b c", None);
    check(Some(2), "a b c", "a b# c", "a c", None);
    check(Some(1), "a b c", "a! b# c", "c", None);
}

#[test]
fn gone_and_cordoned_nodes_keep_what_they_have_and_get_nothing() {
    check(Some(2), "a b", "a! b# c", "a b", None);
    check(Some(3), "a b", "a! b# c d?", "a b c", None);
    let why = "2 chosen nodes take nothing new: 1 not connected, 1 cordoned";
    check(Some(3), "a b", "a! b#", "a b", Some(why));
}

#[test]
fn too_few_nodes_are_said() {
    check(Some(1), "", "X", "", Some("no node has the labels zone=z"));
    let why = "1 chosen nodes take nothing new: 1 without the runtime \"process\"";
    check(Some(1), "", "a?", "", Some(why));
    check(None, "", "a#", "", Some("1 chosen nodes take nothing new: 1 cordoned"));
    let any = Placement { selector: Some(NodeSelector::default()), ..Placement::default() };
    let placed = ask(&any, &Present::default(), &BTreeMap::new());
    assert_eq!(placed.shortage.as_deref(), Some("there is no node"));
}

#[test]
fn without_a_number_there_is_one_on_each() {
    check(None, "", "a b X", "a b", None);
    check(None, "a", "a! b c#", "a b", None);
    check(None, "a a1 b", "a b", "a b", None);
    check(None, "X", "a X", "a", None);
}

/// Copies that can move stay until the plan sends them; those that belong to the node are not wanted.
#[test]
fn a_node_that_is_to_be_emptied_keeps_what_can_move() {
    check(Some(2), "a b", "a~ b c", "a b", None);
    check(Some(1), "a b", "a~ b c", "b", None);
    check(None, "a b", "a~ b c", "b c", None);
    check(None, "a", "a~", "", Some("1 chosen nodes take nothing new: 1 being emptied"));
    let named = Placement { nodes: vec!["a".into(), "b".into()], ..Placement::default() };
    let present = Present { staying: slots("a b"), leaving: BTreeSet::new() };
    let placed = ask(&named, &present, &nodes("a~ b"));
    assert_eq!((shown(&placed.slots).as_str(), placed.desired), ("b", 2));
    assert_eq!(placed.shortage.as_deref(), Some("is being emptied: \"a\""));
}

#[test]
fn a_place_is_free_when_it_was_left() {
    let present = Present { staying: slots("b"), leaving: slots("a") };
    let placed = place(&by_label(Some(2)), PROCESS, &present, &nodes("a b"));
    assert_eq!(shown(&placed.slots), "a1 b");
}

#[test]
fn named_nodes_are_taken_as_they_are() {
    let by_name = |names: &str| Placement {
        nodes: names.split_whitespace().map(str::to_owned).collect(),
        ..Placement::default()
    };
    let present = Present { staying: slots("b"), leaving: BTreeSet::new() };
    let placed = ask(&by_name("a b c ghost"), &present, &nodes("a! b# c#"));
    assert_eq!(shown(&placed.slots), "a b ghost");
    assert_eq!(placed.shortage.as_deref(), Some("cordoned, and takes nothing new: \"c\""));
    assert_eq!(placed.desired, 4);
}

fn with_room(text: &str, cpu_millis: i64) -> BTreeMap<String, Seat> {
    let mut nodes = nodes(text);
    let room = Amounts { cpu_millis, memory_mib: 100 };
    nodes.values_mut().for_each(|seat| seat.free = Some(room));
    nodes
}

#[test]
fn a_node_takes_what_fits() {
    let needs = Needs { amounts: Amounts { cpu_millis: 400, memory_mib: 10 }, ..PROCESS };
    let present = Present::default();
    let spread = place(&by_label(Some(5)), needs, &present, &with_room("a b", 1000));
    assert_eq!(shown(&spread.slots), "a a1 b b1");
    let why = "2 chosen nodes take nothing new: 2 with too little room";
    assert_eq!(spread.shortage.as_deref(), Some(why));
    let each = place(&by_label(None), needs, &present, &with_room("a b", 100));
    assert_eq!((shown(&each.slots).as_str(), each.shortage.as_deref()), ("", Some(why)));
    let named = Placement { nodes: vec!["a".into(), "ghost".into()], ..Placement::default() };
    let placed = place(&named, needs, &present, &with_room("a", 100));
    assert_eq!(shown(&placed.slots), "ghost", "nobody knows how much a stranger has");
    assert_eq!(placed.shortage.as_deref(), Some("has too little room: \"a\""));
    let staying = Present { staying: slots("a"), leaving: BTreeSet::new() };
    let placed = place(&named, needs, &staying, &with_room("a", -50));
    assert_eq!(shown(&placed.slots), "a ghost", "what runs stays");
}

/// "data@b tmp": the volume data is on b, and tmp goes where it is used first.
fn anchors(text: &str) -> Vec<Anchor> {
    let anchor = |word: &str| match word.split_once('@') {
        Some((volume, place)) => {
            Anchor { volume: volume.to_owned(), controller: Some(place.to_owned()) }
        }
        None => Anchor { volume: word.to_owned(), controller: None },
    };
    text.split_whitespace().map(anchor).collect()
}

#[track_caller]
fn drawn(
    volumes: &str,
    replicas: Option<i32>,
    staying: &str,
    seats: &str,
    expect: &str,
    why: &str,
) {
    let (volumes, nodes) = (anchors(volumes), nodes(seats));
    let needs = Needs { volumes: &volumes, ..PROCESS };
    let present = Present { staying: slots(staying), leaving: BTreeSet::new() };
    let placed = place(&by_label(replicas), needs, &present, &nodes);
    assert_eq!(shown(&placed.slots), expect);
    assert_eq!(placed.shortage.as_deref().unwrap_or_default(), why);
    let carried_out = Present { staying: placed.slots.clone(), leaving: BTreeSet::new() };
    assert_eq!(place(&by_label(replicas), needs, &carried_out, &nodes), placed, "at rest");
}

#[test]
fn copies_go_where_their_volumes_are() {
    drawn("data@b", Some(1), "", "a b c", "b", "");
    drawn("data@b", Some(2), "", "a b c", "b b1", "");
    drawn("data@b", None, "", "a b c", "b", "");
    drawn("data@b", Some(1), "a", "a b c", "b", "");
    drawn("data@b more@b", Some(1), "", "a b", "b", "");
    drawn("tmp", Some(1), "", "a? b", "b", "");
    drawn("tmp data@c", Some(1), "", "a b c", "c", "");
}

#[test]
fn a_volume_out_of_reach_is_said() {
    let elsewhere = "the volume data is on X, and no chosen node is served by it";
    drawn("data@X", Some(1), "", "a X", "", elsewhere);
    let apart = "no chosen node reaches all volumes: data on a, more on b";
    drawn("data@a more@b", Some(1), "", "a b", "", apart);
    let bare = "the volume tmp has no place yet, and no chosen node has a storage controller";
    drawn("tmp", Some(1), "", "a?", "", bare);
    let full = "1 chosen nodes with the volumes take nothing new: 1 cordoned";
    drawn("data@b", Some(1), "", "a b#", "", full);
    drawn("data@b", Some(1), "", "X", "", "no node has the labels zone=z");
}

proptest! {
    /// However volumes and nodes are: a copy is where all of its volumes are, or nowhere.
    #[test]
    fn no_copy_is_without_its_volumes(
        seats in proptest::collection::btree_map("[a-e]", "[!#?]?", 0..5),
        staying in proptest::collection::btree_set("[a-e]", 0..4),
        places in proptest::collection::vec(proptest::option::of("[a-e]"), 0..3),
        replicas in proptest::option::of(0..6_i32),
    ) {
        let words: Vec<String> = seats.iter().map(|(node, mark)| format!("{node}{mark}")).collect();
        let nodes = nodes(&words.join(" "));
        let volumes: Vec<Anchor> = places
            .into_iter()
            .map(|controller| Anchor { volume: "v".to_owned(), controller })
            .collect();
        let staying = staying.into_iter().map(|node| Slot { node, copy: 0 }).collect();
        let present = Present { staying, leaving: BTreeSet::new() };
        let needs = Needs { volumes: &volumes, ..PROCESS };
        let placed = place(&by_label(replicas), needs, &present, &nodes);
        for slot in &placed.slots {
            let seat = &nodes[&slot.node];
            prop_assert!(volumes.iter().all(|volume| seat.reaches(volume)), "{:?}", slot);
        }
        prop_assert_eq!(placed.shortage.is_some(), placed.slots.len() < placed.desired
            || (replicas.is_none() && placed.slots.is_empty()));
    }

    /// However much is asked for: no node gets more than it has room for, and nothing that fits is
    /// left out.
    #[test]
    fn no_node_is_overfilled(
        rooms in proptest::collection::btree_map("[a-e]", 0..2000_i64, 1..5),
        asked in 1..700_i64,
        replicas in 0..20_i32,
    ) {
        let words: Vec<String> = rooms.keys().cloned().collect();
        let mut nodes = nodes(&words.join(" "));
        for (name, seat) in &mut nodes {
            seat.free = Some(Amounts { cpu_millis: rooms[name], memory_mib: 0 });
        }
        let needs = Needs { amounts: Amounts { cpu_millis: asked, memory_mib: 0 }, ..PROCESS };
        let placed = place(&by_label(Some(replicas)), needs, &Present::default(), &nodes);
        let load = load(&placed.slots);
        let room = |name: &String| usize::try_from(rooms[name] / asked).unwrap();
        for name in rooms.keys() {
            prop_assert!(load.get(name).copied().unwrap_or(0) <= room(name));
        }
        let all: usize = rooms.keys().map(room).sum();
        prop_assert_eq!(placed.slots.len(), all.min(usize::try_from(replicas).unwrap()));
    }

    /// From any start: at rest after one step, nothing moved without need, and evenly spread where
    /// everything was placed anew.
    #[test]
    fn stable_minimal_and_even(
        staying in proptest::collection::btree_set(("[a-e]", 0..3_i32), 0..8),
        seats in proptest::collection::btree_map("[a-e]", "[!#?~]?", 0..5),
        replicas in 0..12_i32,
    ) {
        let staying: BTreeSet<Slot> =
            staying.into_iter().map(|(node, copy)| Slot { node, copy }).collect();
        let words: Vec<String> = seats.iter().map(|(node, mark)| format!("{node}{mark}")).collect();
        let nodes = nodes(&words.join(" "));
        let wanted = usize::try_from(replicas).unwrap_or_default();
        let present = Present { staying: staying.clone(), leaving: BTreeSet::new() };
        let placed = ask(&by_label(Some(replicas)), &present, &nodes);
        let kept = staying.iter().filter(|slot| nodes.contains_key(&slot.node)).count();
        let moved = staying.iter().filter(|slot| !placed.slots.contains(slot)).count();
        let not_chosen = staying.len() - kept;
        prop_assert_eq!(moved, not_chosen + kept.saturating_sub(wanted), "nothing else moves");
        prop_assert_eq!(placed.shortage.is_none(), placed.slots.len() == wanted);
        for slot in placed.slots.difference(&staying) {
            prop_assert!(nodes[&slot.node].takes("process"), "{:?}", slot);
        }
        let fresh = ask(&by_label(Some(replicas)), &Present::default(), &nodes);
        let load = load(&fresh.slots);
        let open = nodes.iter().filter(|(_, seat)| seat.takes("process"));
        let counts: Vec<usize> =
            open.map(|(node, _)| load.get(node).copied().unwrap_or(0)).collect();
        let (most, least) = (counts.iter().max(), counts.iter().min());
        prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1));
    }
}

#[track_caller]
fn check_beside(others: &str, staying: &str, seats: &str, expect: &str, shortage: Option<&str>) {
    let others: Vec<String> = others.split_whitespace().map(str::to_owned).collect();
    let amounts = Amounts { cpu_millis: 1, memory_mib: 0 };
    let needs = Needs { amounts, beside: &others, ..PROCESS };
    let placement = Placement { beside: Some("web".into()), ..Placement::default() };
    let present = Present { staying: slots(staying), leaving: BTreeSet::new() };
    let mut nodes = nodes(seats);
    nodes.entry("f".to_owned()).or_default().free = Some(Amounts::default());
    let placed = place(&placement, needs, &present, &nodes);
    assert_eq!((shown(&placed.slots).as_str(), placed.desired), (expect, others.len()));
    assert_eq!(placed.shortage.as_deref(), shortage);
}

/// What the other is allowed decides, not what is new.
#[test]
fn beside_another_it_goes_where_that_one_is() {
    check_beside("", "a b", "a b", "", None);
    check_beside("a c", "a b", "a b c", "a c", None);
    check_beside("a b c ghost", "", "a! b# c~", "a b c ghost", None);
    check_beside("a f", "", "a", "a", Some("has too little room: \"f\""));
    check_beside("a f", "f", "a", "a f", None);
}

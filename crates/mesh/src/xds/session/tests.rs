use super::*;
use crate::xds::fake::FakeView;
use proptest::prelude::*;

/// A whole mesh of fakes: routes `r` point at clusters.
struct World {
    session: Session,
    view: FakeView,
}

impl World {
    fn new(protocol: Protocol) -> Self {
        Self { session: Session::new(protocol), view: FakeView::default() }
    }

    fn ask(&mut self, kind: Kind, names: &[&str], nonce: u64, error: bool) {
        let request = Request {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            nonce: if nonce == 0 { String::new() } else { nonce.to_string() },
            error: error.then(|| "no".to_owned()),
            ..Request::default()
        };
        self.session.request(kind, &request, Instant::now());
    }

    fn config_changed(&mut self) {
        let pending = Pending { config: true, since: Some(Instant::now()), ..Pending::default() };
        self.session.mark(&pending);
    }

    /// Everything that goes out without any answer, such as `clusters[a b] endpoints[a]`.
    fn sent(&mut self) -> String {
        let mut all = Vec::new();
        while let Some(push) = self.session.next(&self.view) {
            let names: Vec<_> = push.resources.iter().map(|one| one.name.to_string()).collect();
            let removed = push.removed.iter().map(|name| format!(" -{name}")).collect::<String>();
            all.push(format!("{}[{}{removed}]", push.kind, names.join(" ")));
        }
        all.join(" ")
    }
}

const ROUTE: &[&str] = &["r"];

fn aggregated() -> World {
    let mut world = World::new(Protocol::StateOfTheWorld);
    for name in ["a", "b"] {
        world.view.put(Kind::Cluster, name, 1);
        world.view.put(Kind::Endpoints, name, 2);
    }
    world.view.put(Kind::Listener, "out", 3);
    world.view.put(Kind::Route, "r", 4);
    world.ask(Kind::Route, ROUTE, 0, false);
    world.ask(Kind::Listener, &[], 0, false);
    world.ask(Kind::Endpoints, &["a", "b"], 0, false);
    world.ask(Kind::Cluster, &[], 0, false);
    world
}

/// proves: MSH-07
#[test]
fn answers_go_out_in_order_whatever_was_asked_first() {
    let mut world = aggregated();
    assert_eq!(world.sent(), "clusters[a b] endpoints[a b] listeners[out] routes[r]");
    assert_eq!(world.sent(), "");
}

#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let mut world = aggregated();
    world.sent();
    world.view.put(Kind::Cluster, "a", 10);
    world.config_changed();
    assert_eq!(world.sent(), "clusters[a b] endpoints[a]");
}

#[test]
fn endpoints_alone_touch_nothing_else() {
    let mut world = aggregated();
    world.sent();
    world.view.put(Kind::Endpoints, "b", 20);
    let endpoints = BTreeSet::from([Arc::from("b")]);
    world.session.mark(&Pending { endpoints, config: false, since: None });
    assert_eq!(world.sent(), "endpoints[b]");
}

#[test]
fn a_cluster_goes_only_after_the_routes_without_it_were_accepted() {
    let mut world = aggregated();
    world.sent();
    world.ask(Kind::Route, ROUTE, 1, false);
    world.ask(Kind::Listener, &[], 1, false);
    world.view.remove(Kind::Cluster, "b");
    world.view.put(Kind::Cluster, "c", 5);
    world.view.put(Kind::Route, "r", 40);
    world.config_changed();
    assert_eq!(world.sent(), "clusters[a b c] routes[r]", "the new one first, the old one stays");
    world.ask(Kind::Route, ROUTE, 2, true);
    assert_eq!(world.sent(), "", "a refusal keeps the old routes, and they need the cluster");
    world.view.put(Kind::Route, "r", 41);
    world.config_changed();
    assert_eq!(world.sent(), "routes[r]");
    world.ask(Kind::Route, ROUTE, 3, false);
    assert_eq!(world.sent(), "clusters[a c]");
    assert_eq!(world.sent(), "");
}

#[test]
fn without_routes_on_the_stream_a_cluster_goes_at_once() {
    let mut world = World::new(Protocol::Delta);
    world.view.put(Kind::Cluster, "a", 1);
    world.ask(Kind::Cluster, &[], 0, false);
    assert_eq!(world.sent(), "clusters[a]");
    world.view.remove(Kind::Cluster, "a");
    world.config_changed();
    assert_eq!(world.sent(), "clusters[ -a]");
}

/// proves: MSH-07
#[test]
fn a_cluster_that_went_while_the_client_was_away_goes_last_too() {
    let mut world = World::new(Protocol::Delta);
    world.view.put(Kind::Cluster, "new", 1);
    world.view.put(Kind::Route, "r", 4);
    let held = vec![("old".to_owned(), 7), ("new".to_owned(), 9)];
    let request = Request { held, ..Request::default() };
    world.session.request(Kind::Cluster, &request, Instant::now());
    assert_eq!(world.sent(), "clusters[new]", "the routes are still to be asked for");
    world.ask(Kind::Route, ROUTE, 0, false);
    assert_eq!(world.sent(), "routes[r]");
    world.ask(Kind::Cluster, &[], 1, false);
    assert_eq!(world.sent(), "", "the routes are not accepted yet");
    world.ask(Kind::Route, &[], 1, false);
    assert_eq!(world.sent(), "clusters[ -old]");
    assert_eq!(world.sent(), "");
}

#[test]
fn unknown_types_are_remembered_within_limits() {
    let mut session = Session::new(Protocol::StateOfTheWorld);
    for index in 0..100 {
        session.unknown_type(&format!("{index}{}", "x".repeat(1000)));
    }
    assert_eq!(session.unknown_types().len(), UNKNOWN_TYPES_MAX);
    assert!(session.unknown_types().iter().all(|one| one.len() <= UNKNOWN_TYPE_BYTES_MAX));
}

proptest! {
    /// At every moment each cluster that the accepted routes name is among those the client has.
    #[test]
    fn accepted_routes_never_lose_their_clusters(
        plans in proptest::collection::vec(
            (proptest::collection::btree_set(0_usize..4, 1..4), any::<bool>(), any::<bool>()),
            1..12,
        )
    ) {
        let names = ["a", "b", "c", "d"];
        let mut world = World::new(Protocol::StateOfTheWorld);
        let mut routes: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        let (mut in_force, mut clusters) = (BTreeSet::<&str>::new(), BTreeSet::<String>::new());
        let mut unanswered = None;
        for (version, (plan, accepts, answers)) in plans.iter().enumerate() {
            let version = version as u64 + 1;
            let plan: BTreeSet<&str> = plan.iter().map(|index| names[*index]).collect();
            names.iter().for_each(|name| world.view.remove(Kind::Cluster, name));
            plan.iter().for_each(|name| world.view.put(Kind::Cluster, name, 1));
            world.view.put(Kind::Route, "r", version);
            routes.insert(version, plan);
            if version == 1 {
                world.ask(Kind::Cluster, &[], 0, false);
                world.ask(Kind::Route, ROUTE, 0, false);
            }
            world.config_changed();
            loop {
                while let Some(push) = world.session.next(&world.view) {
                    match push.kind {
                        Kind::Cluster => {
                            clusters = push.resources.iter().map(|one| one.name.to_string()).collect();
                            world.ask(Kind::Cluster, &[], push.nonce, false);
                        }
                        _ => unanswered = Some((push.nonce, push.version)),
                    }
                    prop_assert!(in_force.iter().all(|name| clusters.contains(*name)));
                }
                let Some((nonce, version)) = unanswered.take_if(|_| *answers) else { break };
                if *accepts {
                    in_force = routes[&version].clone();
                }
                prop_assert!(in_force.iter().all(|name| clusters.contains(*name)));
                world.ask(Kind::Route, ROUTE, nonce, !accepts);
            }
        }
    }
}

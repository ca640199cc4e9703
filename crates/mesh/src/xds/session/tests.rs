use super::*;
use crate::xds::fake::FakeView;

/// A whole mesh of fakes: routes `r` point at clusters.
struct World {
    session: Session,
    view: FakeView,
    /// Stands still.
    now: Instant,
}

const LONG: Duration = Duration::from_secs(5);

impl World {
    fn new(protocol: Protocol) -> Self {
        let session = Session::new(protocol, LONG);
        Self { session, view: FakeView::default(), now: Instant::now() }
    }

    fn ask(&mut self, kind: Kind, names: &[&str], nonce: u64, error: bool) {
        let request = Request {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            nonce: if nonce == 0 { String::new() } else { nonce.to_string() },
            error: error.then(|| "no".to_owned()),
            ..Request::default()
        };
        self.session.request(kind, &request, self.now);
    }

    fn config_changed(&mut self) {
        let (kinds, since) = (Kind::ALL.into(), Some(self.now));
        let pending = Pending { kinds, since, ..Pending::default() };
        self.session.mark(&pending);
    }

    /// Everything that goes out without any answer, such as `clusters[a b] endpoints[a]`.
    fn sent(&mut self) -> String {
        let mut all = Vec::new();
        while let Some(push) = self.session.next(&self.view, self.now) {
            let names: Vec<_> = push.resources.iter().map(|one| one.name.to_string()).collect();
            let removed = push.removed.iter().map(|name| format!(" -{name}")).collect::<String>();
            all.push(format!("{}[{}{removed}]", push.kind, names.join(" ")));
        }
        all.join(" ")
    }
}

const ROUTE: &[&str] = &["r"];

/// Everything is sent, and the clusters are warm.
fn settled() -> World {
    let mut world = aggregated();
    world.sent();
    world.ask(Kind::Cluster, &[], 1, false);
    world.sent();
    world
}

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
    assert_eq!(world.sent(), "clusters[a b] endpoints[a b]");
    world.ask(Kind::Endpoints, &["a", "b"], 1, false);
    assert_eq!(world.sent(), "", "the clusters are not warm yet");
    world.ask(Kind::Cluster, &[], 1, false);
    assert_eq!(world.sent(), "listeners[out] routes[r]");
    assert_eq!(world.sent(), "");
}

/// A cluster that does not get warm, or that is refused, keeps nothing back for ever.
#[test]
fn routes_do_not_wait_for_ever() {
    let mut world = aggregated();
    world.sent();
    let until = world.session.wake_at().expect("it waits");
    let late = world.session.next(&world.view, until).map(|push| push.kind);
    assert_eq!((late, world.session.wake_at()), (Some(Kind::Listener), None));
    let mut world = aggregated();
    world.sent();
    world.ask(Kind::Cluster, &[], 1, true);
    assert_eq!(world.sent(), "listeners[out] routes[r]");
}

/// It would wait for an acknowledgement that never comes.
#[test]
fn the_status_leaves_out_what_a_client_asks_nothing_of() {
    for protocol in [Protocol::StateOfTheWorld, Protocol::Delta] {
        let mut world = World::new(protocol);
        world.view.put(Kind::Endpoints, "a", 1);
        world.ask(Kind::Endpoints, &[], 0, false);
        assert_eq!((world.sent().as_str(), world.session.status(&world.view)), ("", vec![]));
        world.ask(Kind::Endpoints, &["a"], 0, false);
        let wanted = |world: &World| world.session.status(&world.view)[0].wanted;
        assert_eq!(wanted(&world), 1, "from then on it counts, sent or not");
        assert_eq!(world.sent(), "endpoints[a]");
        assert_eq!(world.session.status(&world.view)[0].progress.acked, None);
    }
}

#[test]
fn a_changed_cluster_is_followed_by_its_endpoints() {
    let mut world = settled();
    world.view.put(Kind::Cluster, "a", 10);
    world.config_changed();
    assert_eq!(world.sent(), "clusters[a b] endpoints[a]");
}

/// Also where the client asks for them after it, and has them already.
#[test]
fn a_changed_cluster_is_followed_by_endpoints_that_were_held() {
    let mut world = World::new(Protocol::Delta);
    world.view.put(Kind::Cluster, "a", 2);
    world.view.put(Kind::Endpoints, "a", 3);
    let held = |version| vec![("a".to_owned(), version)];
    let clusters = Request { held: held(1), ..Request::default() };
    world.session.request(Kind::Cluster, &clusters, world.now);
    assert_eq!(world.sent(), "clusters[a]");
    let endpoints = Request { names: vec!["a".into()], held: held(3), ..Request::default() };
    world.session.request(Kind::Endpoints, &endpoints, world.now);
    assert_eq!(world.sent(), "endpoints[a]");
}

#[test]
fn endpoints_alone_touch_nothing_else() {
    let mut world = settled();
    world.view.put(Kind::Endpoints, "b", 20);
    let endpoints = BTreeSet::from([Arc::from("b")]);
    world.session.mark(&Pending { endpoints, ..Pending::default() });
    assert_eq!(world.sent(), "endpoints[b]");
}

#[test]
fn a_cluster_goes_only_after_the_routes_without_it_were_accepted() {
    let mut world = settled();
    world.ask(Kind::Route, ROUTE, 1, false);
    world.ask(Kind::Listener, &[], 1, false);
    world.view.remove(Kind::Cluster, "b");
    world.view.put(Kind::Cluster, "c", 5);
    world.view.put(Kind::Route, "r", 40);
    world.config_changed();
    assert_eq!(world.sent(), "clusters[a b c]", "the new one first, the old one stays");
    world.ask(Kind::Cluster, &[], 2, false);
    assert_eq!(world.sent(), "routes[r]");
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
    world.session.request(Kind::Cluster, &request, world.now);
    assert_eq!(world.sent(), "clusters[new]", "the routes are still to be asked for");
    world.ask(Kind::Route, ROUTE, 0, false);
    assert_eq!(world.sent(), "", "the new cluster is not warm yet");
    world.ask(Kind::Cluster, &[], 1, false);
    assert_eq!(world.sent(), "routes[r]", "which are not accepted yet");
    world.ask(Kind::Route, &[], 1, false);
    assert_eq!(world.sent(), "clusters[ -old]");
    assert_eq!(world.sent(), "");
}

/// On whole states a client that comes back says a version, and by the endpoints it asks for what it has.
///
/// proves: MSH-07
#[test]
fn a_cluster_that_went_while_the_client_was_away_has_a_stand_in_on_whole_states() {
    let mut world = World::new(Protocol::StateOfTheWorld);
    for name in ["kept", "new"] {
        world.view.put(Kind::Cluster, name, 1);
        world.view.put(Kind::Endpoints, name, 2);
    }
    world.view.put(Kind::Endpoints, "old", 0);
    world.view.put(Kind::Route, "r", 4);
    let back = Request { version: Some(77), ..Request::default() };
    world.session.request(Kind::Cluster, &back, world.now);
    assert_eq!(world.sent(), "", "an answer would take away what it cannot name yet");
    world.ask(Kind::Endpoints, &["kept", "old"], 0, false);
    assert_eq!(world.sent(), "clusters[kept new old] endpoints[kept]", "the old one keeps its own");
    world.ask(Kind::Route, ROUTE, 0, false);
    world.ask(Kind::Endpoints, &["kept", "new", "old"], 1, false);
    assert_eq!(world.sent(), "endpoints[new]", "routes wait for the new one");
    world.ask(Kind::Endpoints, &["kept", "new", "old"], 2, false);
    assert_eq!(world.sent(), "routes[r]", "the clusters are acknowledged without stand-ins only");
    world.ask(Kind::Route, ROUTE, 1, false);
    assert_eq!(world.sent(), "clusters[kept new] endpoints[old]");
    world.ask(Kind::Cluster, &[], 2, false);
    assert_eq!((world.sent().as_str(), world.session.wake_at()), ("", None));
}

#[test]
fn a_client_that_has_what_it_should_or_no_endpoints_is_answered() {
    let back = |version| Request { version: Some(version), ..Request::default() };
    let mut world = World::new(Protocol::StateOfTheWorld);
    world.view.put(Kind::Cluster, "a", 5);
    world.session.request(Kind::Cluster, &back(5), world.now);
    assert_eq!(world.sent(), "clusters[a]", "it has just these");
    let mut world = World::new(Protocol::StateOfTheWorld);
    world.view.put(Kind::Cluster, "a", 5);
    world.session.request(Kind::Cluster, &back(4), world.now);
    assert_eq!(world.sent(), "");
    let until = world.session.wake_at().expect("it is waited for more");
    let late = world.session.next(&world.view, until).expect("but not for ever");
    assert_eq!(late.kind, Kind::Cluster);
}

/// What it cannot reach any more it reaches until it no longer wants to.
#[test]
fn the_endpoints_of_a_cluster_go_with_it() {
    let mut world = settled();
    world.ask(Kind::Route, ROUTE, 1, false);
    world.ask(Kind::Listener, &[], 1, false);
    world.view.remove(Kind::Cluster, "b");
    world.view.put(Kind::Endpoints, "b", 0);
    world.view.put(Kind::Route, "r", 40);
    world.config_changed();
    assert_eq!(world.sent(), "routes[r]");
    world.ask(Kind::Route, ROUTE, 2, false);
    assert_eq!(world.sent(), "clusters[a] endpoints[b]");
}

#[test]
fn unknown_types_are_remembered_within_limits() {
    let mut session = Session::new(Protocol::StateOfTheWorld, LONG);
    for index in 0..100 {
        session.unknown_type(&format!("{index}{}", "x".repeat(1000)));
    }
    assert_eq!(session.unknown_types().len(), UNKNOWN_TYPES_MAX);
    assert!(session.unknown_types().iter().all(|one| one.len() <= UNKNOWN_TYPE_BYTES_MAX));
}

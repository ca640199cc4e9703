//! A client as Envoy is one: it warms clusters up, keeps the old ones meanwhile, acknowledges clusters when all
//! are warm, and comes back with what it has.
use super::*;
use crate::xds::fake::FakeView;
use proptest::prelude::*;
use std::collections::VecDeque;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROUTES: &str = "r";
const LONG: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
enum Step {
    /// Routes name these from now on, and there are no other clusters; one of them in another version.
    Config(BTreeSet<usize>, u64),
    Endpoints(usize, u64),
    ToServer,
    ToClient,
    /// The stream breaks, and what was on its way is lost.
    ComeBack,
}

fn step() -> impl Strategy<Value = Step> {
    let names = || proptest::collection::btree_set(0..NAMES.len(), 1..3);
    prop_oneof![
        3 => (names(), 1_u64..3).prop_map(|(names, version)| Step::Config(names, version)),
        1 => (0..NAMES.len(), 1_u64..9).prop_map(|(name, version)| Step::Endpoints(name, version)),
        8 => Just(Step::ToServer),
        8 => Just(Step::ToClient),
        1 => Just(Step::ComeBack),
    ]
}

/// A version, such that no two sums of different ones are the same.
fn content(name: &str, version: u64) -> u64 {
    (u64::from(name.as_bytes()[0]) * 10 + version).pow(6)
}

struct World {
    protocol: Protocol,
    view: FakeView,
    session: Session,
    now: Instant,
    /// What each version of the routes names.
    plans: BTreeMap<u64, BTreeSet<&'static str>>,
    client: Client,
    to_server: VecDeque<(Kind, Request)>,
    to_client: VecDeque<Push>,
}

#[derive(Default)]
struct Client {
    active: BTreeMap<String, u64>,
    warming: BTreeMap<String, u64>,
    /// By name, as it was told last.
    endpoints: BTreeMap<String, u64>,
    asked: BTreeSet<String>,
    in_force: BTreeSet<&'static str>,
    versions: BTreeMap<Kind, u64>,
    routes: Option<u64>,
    /// Clusters that it has not acknowledged, by nonce.
    unacknowledged: Option<u64>,
    endpoints_nonce: String,
}

impl World {
    fn new(protocol: Protocol) -> Self {
        let mut world = Self {
            protocol,
            view: FakeView::default(),
            session: Session::new(protocol, LONG),
            now: Instant::now(),
            plans: BTreeMap::new(),
            client: Client::default(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
        };
        world.configure(&BTreeSet::from([0]), 1);
        world.come_back();
        world
    }

    fn configure(&mut self, names: &BTreeSet<usize>, version: u64) {
        NAMES.iter().for_each(|name| self.view.remove(Kind::Cluster, name));
        let names: BTreeSet<&str> = names.iter().map(|index| NAMES[*index]).collect();
        for name in &names {
            self.view.put(Kind::Cluster, name, content(name, version));
        }
        for name in NAMES {
            // Of what is not declared there are none, which is an answer too.
            let is_there = names.contains(name);
            let version = if is_there { u64::from(name.as_bytes()[0]) * 100 } else { 7 };
            self.view.put(Kind::Endpoints, name, version);
        }
        let routes = self.plans.len() as u64 + 1;
        self.plans.insert(routes, names);
        self.view.put(Kind::Route, ROUTES, routes);
        self.session.mark(&Pending { kinds: Kind::ALL.into(), ..Pending::default() });
    }

    fn move_endpoints(&mut self, name: &'static str, version: u64) {
        if self.view.version(Kind::Cluster, name).is_some() {
            self.view.put(Kind::Endpoints, name, u64::from(name.as_bytes()[0]) * 100 + version);
            let endpoints = BTreeSet::from([Arc::from(name)]);
            self.session.mark(&Pending { endpoints, ..Pending::default() });
        }
    }

    fn come_back(&mut self) {
        self.session = Session::new(self.protocol, LONG);
        self.to_server.clear();
        self.to_client.clear();
        // What was not warm by then is begun anew when it is sent again.
        self.client.warming.clear();
        self.client.unacknowledged = None;
        self.client.endpoints_nonce.clear();
        self.client.asked = self.client.active.keys().cloned().collect();
        let held = |of: &BTreeMap<String, u64>| match self.protocol {
            Protocol::Delta => of.iter().map(|(name, version)| (name.clone(), *version)).collect(),
            Protocol::StateOfTheWorld => Vec::new(),
        };
        let version = |kind: Kind| match self.protocol {
            Protocol::Delta => None,
            Protocol::StateOfTheWorld => self.client.versions.get(&kind).copied(),
        };
        let clusters = Request {
            held: held(&self.client.active),
            version: version(Kind::Cluster),
            ..Request::default()
        };
        self.to_server.push_back((Kind::Cluster, clusters));
        if !self.client.asked.is_empty() {
            let mut known = self.client.endpoints.clone();
            known.retain(|name, _| self.client.asked.contains(name));
            let request = Request {
                names: self.client.asked.iter().cloned().collect(),
                held: held(&known),
                version: version(Kind::Endpoints),
                ..Request::default()
            };
            self.to_server.push_back((Kind::Endpoints, request));
        }
        let routes = self.client.routes.map(|version| (ROUTES.to_owned(), version));
        let held = held(&routes.into_iter().collect());
        let names = vec![ROUTES.to_owned()];
        let request = Request { names, held, version: version(Kind::Route), ..Request::default() };
        self.to_server.push_back((Kind::Route, request));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Config(names, version) => self.configure(&names, version),
            Step::Endpoints(name, version) => self.move_endpoints(NAMES[name], version),
            Step::ToServer => {
                if let Some((kind, request)) = self.to_server.pop_front() {
                    self.session.request(kind, &request, self.now);
                }
            }
            Step::ToClient => {
                if let Some(push) = self.to_client.pop_front() {
                    self.take(&push);
                }
            }
            Step::ComeBack => self.come_back(),
        }
        while let Some(push) = self.session.next(&self.view, self.now) {
            self.to_client.push_back(push);
        }
        let lost: Vec<_> = self
            .client
            .in_force
            .iter()
            .filter(|name| !self.client.active.contains_key(**name))
            .collect();
        assert!(lost.is_empty(), "routes in force name {lost:?}, of {:?}", self.client.active);
    }

    fn take(&mut self, push: &Push) {
        let removed: BTreeSet<&str> = push.removed.iter().map(|name| &**name).collect();
        match push.kind {
            Kind::Cluster => {
                let listed: BTreeSet<&str> = push.resources.iter().map(|one| &*one.name).collect();
                let is_whole = self.protocol == Protocol::StateOfTheWorld;
                let is_gone = |name: &str| match is_whole {
                    true => !listed.contains(name),
                    false => removed.contains(name),
                };
                self.client.active.retain(|name, _| !is_gone(name));
                self.client.warming.retain(|name, _| !is_gone(name));
                for one in &push.resources {
                    let name = one.name.to_string();
                    match self.client.active.get(&name) == Some(&one.version) {
                        true => self.client.warming.remove(&name),
                        false => self.client.warming.insert(name, one.version),
                    };
                }
                self.client.versions.insert(Kind::Cluster, push.version);
                self.client.unacknowledged = Some(push.nonce);
                self.ask_for_endpoints();
            }
            Kind::Endpoints => {
                for one in &push.resources {
                    let name = one.name.to_string();
                    self.client.endpoints.insert(name.clone(), one.version);
                    if let Some(version) = self.client.warming.remove(&name) {
                        self.client.active.insert(name, version);
                    }
                }
                self.client.versions.insert(Kind::Endpoints, push.version);
                self.client.endpoints_nonce = push.nonce.to_string();
                self.send(Kind::Endpoints, push.nonce.to_string(), Vec::new());
            }
            _ => {
                for one in &push.resources {
                    self.client.in_force = self.plans[&one.version].clone();
                    self.client.routes = Some(one.version);
                }
                self.client.versions.insert(Kind::Route, push.version);
                self.send(Kind::Route, push.nonce.to_string(), Vec::new());
            }
        }
        if self.client.warming.is_empty()
            && let Some(nonce) = self.client.unacknowledged.take()
        {
            self.send(Kind::Cluster, nonce.to_string(), Vec::new());
        }
    }

    fn ask_for_endpoints(&mut self) {
        let client = &mut self.client;
        let wanted: BTreeSet<String> =
            client.active.keys().chain(client.warming.keys()).cloned().collect();
        let before = std::mem::replace(&mut client.asked, wanted);
        let gone: Vec<String> = before.difference(&client.asked).cloned().collect();
        client.endpoints.retain(|name, _| !gone.contains(name));
        if before != client.asked {
            let nonce = match self.protocol {
                Protocol::StateOfTheWorld => client.endpoints_nonce.clone(),
                Protocol::Delta => String::new(),
            };
            let fresh = client.asked.difference(&before).cloned().collect();
            match self.protocol {
                Protocol::StateOfTheWorld => self.send(Kind::Endpoints, nonce, Vec::new()),
                Protocol::Delta => {
                    let request = Request { names: fresh, unsubscribe: gone, ..Request::default() };
                    self.to_server.push_back((Kind::Endpoints, request));
                }
            }
        }
    }

    fn send(&mut self, kind: Kind, nonce: String, unsubscribe: Vec<String>) {
        let names = match (self.protocol, kind) {
            (Protocol::Delta, _) | (_, Kind::Cluster) => Vec::new(),
            (_, Kind::Endpoints) => self.client.asked.iter().cloned().collect(),
            _ => vec![ROUTES.to_owned()],
        };
        let request = Request { names, unsubscribe, nonce, ..Request::default() };
        self.to_server.push_back((kind, request));
    }

    /// Everything on its way arrives, and time passes where somebody waits for it.
    fn settle(&mut self) {
        for _ in 0..1000 {
            if self.to_server.is_empty() && self.to_client.is_empty() {
                let Some(until) = self.session.wake_at() else { return };
                self.now = self.now.max(until);
            }
            self.run(Step::ToServer);
            self.run(Step::ToClient);
        }
        panic!("it must come to rest");
    }

    fn check(&self) {
        let wanted = &self.plans[&(self.plans.len() as u64)];
        let has: BTreeSet<&str> = self.client.active.keys().map(String::as_str).collect();
        assert_eq!((&has, &self.client.in_force), (wanted, wanted));
        for name in wanted {
            let version = self.view.version(Kind::Cluster, name);
            assert_eq!(self.client.active.get(*name).copied(), version, "{name}");
            let version = self.view.version(Kind::Endpoints, name);
            assert_eq!(self.client.endpoints.get(*name).copied(), version, "endpoints of {name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// At every moment each cluster that the routes in force name is there and warm, whatever changes and
    /// however often the client has to come back; and in the end it has what it should.
    ///
    /// proves: MSH-07
    #[test]
    fn routes_in_force_never_lose_their_clusters(
        is_delta in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let protocol = if is_delta { Protocol::Delta } else { Protocol::StateOfTheWorld };
        let mut world = World::new(protocol);
        world.settle();
        for step in steps {
            world.run(step);
        }
        world.settle();
        world.check();
    }
}

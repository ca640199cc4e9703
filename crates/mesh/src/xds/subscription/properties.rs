//! Whatever happens in whatever order, a client that answers ends up with what it should have.
use super::*;
use crate::xds::fake::FakeView;
use proptest::prelude::*;
use std::collections::VecDeque;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize, u64),
    Remove(usize),
    Subscribe(usize),
    Unsubscribe(usize),
    /// The oldest request on its way arrives.
    ToServer,
    /// The oldest answer on its way arrives; the client refuses it or not.
    ToClient {
        accept: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    prop_oneof![
        (name.clone(), 1_u64..5).prop_map(|(name, version)| Step::Put(name, version)),
        name.clone().prop_map(Step::Remove),
        name.clone().prop_map(Step::Subscribe),
        name.prop_map(Step::Unsubscribe),
        Just(Step::ToServer),
        Just(Step::ToServer),
        any::<bool>().prop_map(|accept| Step::ToClient { accept }),
        Just(Step::ToClient { accept: true }),
    ]
}

/// A client that follows the protocol, and the wire between.
struct World {
    kind: Kind,
    protocol: Protocol,
    view: FakeView,
    server: Subscription,
    names: BTreeSet<String>,
    holds: BTreeMap<String, u64>,
    nonce: String,
    to_server: VecDeque<Request>,
    to_client: VecDeque<Push>,
    refused: bool,
}

impl World {
    fn new(kind: Kind, protocol: Protocol) -> Self {
        let mut world = Self {
            kind,
            protocol,
            view: FakeView::default(),
            server: Subscription::new(kind, protocol),
            names: BTreeSet::from(["a".to_owned()]),
            holds: BTreeMap::new(),
            nonce: String::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            refused: false,
        };
        world.send(vec!["a".to_owned()], Vec::new(), None);
        world
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Put(name, version) => {
                // Versions are made of content, so that different names never share one.
                let version = version * 100 + name as u64;
                self.view.put(self.kind, NAMES[name], version);
                self.changed(NAMES[name]);
            }
            Step::Remove(name) => {
                self.view.remove(self.kind, NAMES[name]);
                self.changed(NAMES[name]);
            }
            Step::Subscribe(name) => self.subscribe(NAMES[name]),
            Step::Unsubscribe(name) => self.unsubscribe(NAMES[name]),
            Step::ToServer => self.deliver_request(),
            Step::ToClient { accept } => self.deliver_answer(accept),
        }
        self.to_client.extend(self.server.plan(&self.view));
    }

    fn changed(&mut self, name: &str) {
        self.server.mark(&BTreeSet::from([name.into()]), Some(Instant::now()));
    }

    fn subscribe(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.send(vec![name.to_owned()], Vec::new(), None);
        }
    }

    fn unsubscribe(&mut self, name: &str) {
        // The last name stays: without any, a list of clusters would mean all of them.
        if 1 < self.names.len() && self.names.remove(name) {
            self.holds.remove(name);
            self.send(Vec::new(), vec![name.to_owned()], None);
        }
    }

    fn send(&mut self, added: Vec<String>, removed: Vec<String>, error: Option<String>) {
        let request = match self.protocol {
            Protocol::StateOfTheWorld => Request {
                names: self.names.iter().cloned().collect(),
                nonce: self.nonce.clone(),
                error,
                ..Request::default()
            },
            Protocol::Delta => {
                let is_verdict = added.is_empty() && removed.is_empty();
                let nonce = if is_verdict { self.nonce.clone() } else { String::new() };
                Request { names: added, unsubscribe: removed, nonce, error, ..Request::default() }
            }
        };
        self.to_server.push_back(request);
    }

    fn deliver_request(&mut self) {
        if let Some(request) = self.to_server.pop_front() {
            self.server.request(&request, Instant::now());
        }
    }

    fn deliver_answer(&mut self, accept: bool) {
        let Some(push) = self.to_client.pop_front() else { return };
        self.nonce = push.nonce.to_string();
        self.refused |= !accept;
        if accept {
            self.apply(&push);
        }
        self.send(Vec::new(), Vec::new(), (!accept).then(|| "no".to_owned()));
    }

    fn apply(&mut self, push: &Push) {
        if self.protocol == Protocol::StateOfTheWorld && self.kind.is_whole() {
            self.holds.clear();
        }
        for name in &push.removed {
            self.holds.remove(&**name);
        }
        for one in push.resources.iter().filter(|one| self.names.contains(&*one.name)) {
            self.holds.insert(one.name.to_string(), one.version);
        }
    }

    /// Everything on its way arrives; returns how many answers that took.
    fn settle(&mut self) -> usize {
        let mut answers = 0;
        while !self.to_server.is_empty() || !self.to_client.is_empty() {
            answers += usize::from(!self.to_client.is_empty());
            self.run(Step::ToClient { accept: true });
            self.run(Step::ToServer);
            assert!(answers < 1000, "it must come to rest");
        }
        answers
    }

    fn check(&self) {
        for name in &self.names {
            let wanted = self.view.version(self.kind, name);
            let is_silent = self.protocol == Protocol::StateOfTheWorld && !self.kind.is_whole();
            if wanted.is_some() || !is_silent {
                assert_eq!(self.holds.get(name).copied(), wanted, "{name}");
            }
        }
    }
}

fn run(kind: Kind, protocol: Protocol, steps: &[Step]) {
    let mut world = World::new(kind, protocol);
    steps.iter().for_each(|step| world.run(*step));
    world.settle();
    if !world.refused {
        world.check();
        assert!(world.server.is_settled());
        let wanted = world.server.wanted(&world.view);
        let progress = world.server.progress();
        assert!(
            progress.acked.is_none_or(|acked| acked == wanted),
            "{progress:?}, {wanted} wanted"
        );
    }
    // After a refusal, a new version of everything must reach the client.
    for (name, _) in NAMES.iter().enumerate() {
        world.run(Step::Put(name, 9));
    }
    world.settle();
    world.check();
    assert_eq!(world.server.progress().sent, Some(world.server.wanted(&world.view)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// proves: MSH-01
    #[test]
    fn an_answering_client_ends_up_with_what_it_should_have(
        kind in prop_oneof![Just(Kind::Cluster), Just(Kind::Endpoints)],
        is_delta in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        run(kind, if is_delta { Protocol::Delta } else { Protocol::StateOfTheWorld }, &steps);
    }
}

use super::*;
use crate::xds::fake::FakeView;
use std::time::Duration;

/// One kind of one client, driven by short texts.
struct Table {
    subscription: Subscription,
    view: FakeView,
    kind: Kind,
}

impl Table {
    fn new(kind: Kind, protocol: Protocol) -> Self {
        Self { subscription: Subscription::new(kind, protocol), view: FakeView::default(), kind }
    }

    /// `a b` asks for a and b; `@1 a` does so with nonce 1; `@1! a` refuses; `-a` unsubscribes.
    fn request(&mut self, text: &str) -> String {
        let mut request = Request::default();
        for word in text.split_whitespace() {
            if let Some(nonce) = word.strip_prefix('@') {
                request.nonce = nonce.trim_end_matches('!').to_owned();
                request.error = nonce.ends_with('!').then(|| "no good".to_owned());
            } else if let Some(name) = word.strip_prefix('-') {
                request.unsubscribe.push(name.to_owned());
            } else if let Some((name, version)) = word.split_once('=') {
                request.held.push((name.to_owned(), version.parse().unwrap()));
            } else {
                request.names.push(word.to_owned());
            }
        }
        self.subscription.request(&request, Instant::now());
        self.pushed()
    }

    /// `a=1 -b` puts a at version 1 and removes b.
    fn change(&mut self, text: &str) -> String {
        let mut names = BTreeSet::new();
        for word in text.split_whitespace() {
            let name = match word.split_once('=') {
                Some((name, version)) => {
                    self.view.put(self.kind, name, version.parse().unwrap());
                    name
                }
                None => {
                    self.view.remove(self.kind, &word[1..]);
                    &word[1..]
                }
            };
            names.insert(Arc::from(name));
        }
        self.subscription.mark(&names, Some(Instant::now()));
        self.pushed()
    }

    fn pushed(&mut self) -> String {
        let Some(push) = self.subscription.plan(&self.view) else { return String::new() };
        let resources = push.resources.iter().map(|one| format!(" {}={}", one.name, one.version));
        let removed = push.removed.iter().map(|name| format!(" -{name}"));
        format!("@{}{}", push.nonce, resources.chain(removed).collect::<String>())
    }
}

/// Steps are `? request` or `! change`, then `=> ` what goes out.
#[track_caller]
fn check(kind: Kind, protocol: Protocol, steps: &[(&str, &str)]) -> Subscription {
    let mut table = Table::new(kind, protocol);
    for (index, (step, expect)) in steps.iter().enumerate() {
        let sent = match step.split_at(1) {
            ("?", text) => table.request(text),
            (_, text) => table.change(text),
        };
        assert_eq!(sent, *expect, "step {index}: {step}");
    }
    table.subscription
}

fn endpoints(steps: &[(&str, &str)]) -> Subscription {
    check(Kind::Endpoints, Protocol::StateOfTheWorld, steps)
}

/// proves: MSH-01
#[test]
fn an_acknowledged_answer_is_followed_by_changes_only() {
    let done = endpoints(&[
        ("! a=1 b=1 c=1", ""),
        ("? a b", "@1 a=1 b=1"),
        ("? @1 a b", ""),
        ("! b=2", "@2 b=2"),
        ("! c=2", ""),
        ("? @2 a b", ""),
        ("! b=2", ""),
    ]);
    assert!(done.is_settled());
    assert_eq!(done.progress().acked, Some(3));
}

#[test]
fn what_a_client_brings_along_it_has_accepted() {
    let mut table = Table::new(Kind::Endpoints, Protocol::Delta);
    table.change("a=1 b=1");
    let state = |table: &Table| {
        (table.subscription.progress().acked, table.subscription.wanted(&table.view))
    };
    assert_eq!(table.request("a b a=1 b=1"), "", "it has both");
    assert_eq!(state(&table), (Some(2), 2));
    assert_eq!(table.change("b=4"), "@1 b=4");
    assert_eq!(state(&table), (Some(2), 5));
    table.request("@1");
    assert_eq!(state(&table), (Some(5), 5));
    let mut other = Table::new(Kind::Endpoints, Protocol::Delta);
    other.change("a=3");
    assert_eq!(other.request("a a=1"), "@1 a=3", "what it has is old");
    assert_eq!(state(&other), (Some(1), 3));
}

#[test]
fn a_refused_answer_is_kept_and_not_repeated() {
    let mut table = Table::new(Kind::Endpoints, Protocol::StateOfTheWorld);
    table.change("! a=1".trim_start_matches("! "));
    assert_eq!(table.request("a"), "@1 a=1");
    assert_eq!(table.request("@1 a"), "");
    assert_eq!(table.change("a=2"), "@2 a=2");
    assert_eq!(table.request("@2! a"), "", "no hot loop");
    assert_eq!(table.request("@2! a"), "");
    let progress = table.subscription.progress().clone();
    assert_eq!(
        (progress.acked, progress.sent),
        (Some(1), Some(2)),
        "the last good one stays known"
    );
    let nack = progress.nacked.expect("the refusal is kept");
    assert_eq!((nack.version, nack.message.as_str()), (2, "no good"));
    assert!(!table.subscription.is_settled());
    assert_eq!(table.change("a=3"), "@3 a=3");
    assert_eq!(table.request("@3 a"), "");
    assert!(table.subscription.is_settled());
}

#[test]
fn a_stale_nonce_says_nothing_of_the_answer_but_its_names_count() {
    let done = endpoints(&[
        ("! a=1 b=1", ""),
        ("? a", "@1 a=1"),
        ("! a=2", "@2 a=2"),
        ("? @1 a b", "@3 b=1"),
        ("? @2! a b", ""),
        ("? @3 a b", ""),
    ]);
    assert!(done.is_settled(), "the stale refusal was not taken for one of the latest answer");
}

#[test]
fn a_name_that_comes_back_is_answered_again() {
    endpoints(&[
        ("! a=1 b=1", ""),
        ("? a b", "@1 a=1 b=1"),
        ("? @1 b", ""),
        ("? @1 a b", "@2 a=1"),
        ("? @2 b", ""),
        ("! a=2", ""),
        ("? @2 a b", "@3 a=2"),
    ]);
}

#[test]
fn a_client_that_starts_over_gets_everything() {
    endpoints(&[("! a=1", ""), ("? a", "@1 a=1"), ("? @1 a", ""), ("? a", "@2 a=1")]);
    endpoints(&[("! a=1", ""), ("? @77 a", "@1 a=1"), ("? @1 a", "")]);
}

#[test]
fn a_name_that_does_not_exist_yet_is_answered_when_it_does() {
    endpoints(&[("? a b", ""), ("! b=1", "@1 b=1"), ("! a=1", "@2 a=1"), ("! -a", "")]);
}

#[test]
fn clusters_are_always_sent_whole() {
    let clusters = |steps| check(Kind::Cluster, Protocol::StateOfTheWorld, steps);
    clusters(&[
        ("! a=1 b=1", ""),
        ("?", "@1 a=1 b=1"),
        ("? @1", ""),
        ("! a=2", "@2 a=2 b=1"),
        ("! c=1", "@3 a=2 b=1 c=1"),
        ("! -a", "@4 b=1 c=1"),
        ("! -b -c", "@5"),
    ]);
    clusters(&[("?", "@1"), ("? @1", "")]);
    clusters(&[("! a=1 b=1", ""), ("? a", "@1 a=1"), ("! b=2", ""), ("? @1 a *", "@2 a=1 b=2")]);
    clusters(&[("! a=1 b=1", ""), ("? a", "@1 a=1"), ("? @1", ""), ("! a=2", "")]);
}

/// Everything, some by name, both, and back, as a client may change its mind on whole states.
///
/// proves: MSH-01
#[test]
fn everything_and_names_beside_each_other_on_whole_states() {
    let clusters = |steps| check(Kind::Cluster, Protocol::StateOfTheWorld, steps);
    let done = clusters(&[
        ("! a=1 b=2", ""),
        // By silence, and it stays so however often silence acknowledges.
        ("?", "@1 a=1 b=2"),
        ("? @1", ""),
        ("! b=3", "@2 a=1 b=3"),
        ("? @2", ""),
        ("? @2 * nope", ""),
        ("! c=4", "@3 a=1 b=3 c=4"),
        ("? @3 * nope", ""),
        // Now names only, and then nothing at all.
        ("? @3 a", ""),
        ("! b=5 c=5", ""),
        ("! a=6", "@4 a=6"),
        ("? @4", ""),
        ("! a=7", ""),
        ("? @4 *", "@5 a=7 b=5 c=5"),
        ("? @5 *", ""),
    ]);
    assert!(done.is_settled());
    assert_eq!(done.progress().acked, Some(17));
    let done = clusters(&[("! a=1 b=2", ""), ("? *", "@1 a=1 b=2"), ("? @1 a", "")]);
    assert_eq!(done.progress().acked, Some(1), "what it let go of is not part of what it has");
}

/// proves: MSH-07
#[test]
fn delta_sends_differences_and_removals() {
    let delta = |kind, steps| check(kind, Protocol::Delta, steps);
    delta(
        Kind::Cluster,
        &[
            ("! a=1 b=1", ""),
            ("?", "@1 a=1 b=1"),
            ("? @1", ""),
            ("! a=2", "@2 a=2"),
            ("! -b", "@3 -b"),
        ],
    );
    delta(
        Kind::Endpoints,
        &[
            ("! a=1", ""),
            ("? a b", "@1 a=1 -b"),
            ("! b=1", "@2 b=1"),
            ("? -a", ""),
            ("! a=2", ""),
            ("? a", "@3 a=2"),
            ("? a", "@4 a=2"),
        ],
    );
    delta(Kind::Endpoints, &[("! a=1 b=2", ""), ("? a b a=1 b=1", "@1 b=2")]);
    delta(Kind::Cluster, &[("! a=1", ""), ("? a=1 old=1", "@1 -old")]);
    delta(Kind::Cluster, &[("! a=1", ""), ("? *", "@1 a=1"), ("? -*", ""), ("! a=2", "")]);
}

/// proves: MSH-07
#[test]
fn delta_tells_everything_from_names() {
    let clusters = |steps| check(Kind::Cluster, Protocol::Delta, steps);
    // Only the very first request asks for everything by silence, answered or not.
    clusters(&[("! a=1 b=1", ""), ("? a a=1", ""), ("? -a", ""), ("! b=2", "")]);
    // A name beside everything; who lets go of it is told what is left of it.
    clusters(&[
        ("! a=1 b=1", ""),
        ("?", "@1 a=1 b=1"),
        ("? a", "@2 a=1"),
        ("? @2", ""),
        ("? -a", "@3 a=1"),
        ("? nope", "@4 -nope"),
        ("? -nope", "@5 -nope"),
        ("! a=2", "@6 a=2"),
        ("? -*", ""),
        ("! a=3 b=3", ""),
    ]);
    // A client that comes back with what it has is sent what it lacks, and what is gone.
    clusters(&[("! a=2 b=1 c=1", ""), ("? a=1 b=1 old=7", "@1 a=2 c=1 -old"), ("? @1", "")]);
    clusters(&[("! a=1", ""), ("? a=1", "@1"), ("? @1", "")]);
}

#[test]
fn stale_nonces_count_in_neither_variant() {
    let done = check(
        Kind::Endpoints,
        Protocol::Delta,
        &[
            ("! a=1 b=1", ""),
            ("? a", "@1 a=1"),
            ("! a=2", "@2 a=2"),
            ("? @1! b", "@3 b=1"),
            ("? @2!", ""),
            ("? @3", ""),
        ],
    );
    assert!(done.is_settled(), "refusals of older answers are not taken for one of the latest");
}

#[test]
fn convergence_is_counted_from_the_first_change_to_the_acknowledgement() {
    let start = Instant::now();
    let mut table = Table::new(Kind::Endpoints, Protocol::StateOfTheWorld);
    table.change("a=1");
    table.request("a");
    table.view.put(Kind::Endpoints, "a", 2);
    let names = BTreeSet::from([Arc::from("a")]);
    table.subscription.mark(&names, Some(start));
    table.subscription.mark(&names, Some(start + Duration::from_secs(5)));
    assert_eq!(table.pushed(), "@2 a=2");
    let ack = Request { names: vec!["a".into()], nonce: "2".into(), ..Request::default() };
    table.subscription.request(&ack, start + Duration::from_secs(7));
    assert_eq!(table.subscription.progress().convergence, Some(Duration::from_secs(7)));
}

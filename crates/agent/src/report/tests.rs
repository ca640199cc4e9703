use super::*;
use proptest::prelude::*;

fn id(number: usize) -> InstanceId {
    InstanceId::new(&format!("i{number}")).unwrap()
}

fn status(state: &str) -> WorkloadInstanceStatus {
    WorkloadInstanceStatus { state: state.into(), ..WorkloadInstanceStatus::default() }
}

/// Everything the reporter has to say, as "i1=Running" and so on.
fn said(reporter: &mut Reporter) -> Vec<String> {
    let mut said = Vec::new();
    while reporter.has_news() {
        let Some(to_server::Message::States(states)) = reporter.take().message else {
            panic!("a report is a list of states");
        };
        assert!(states.states.len() <= BATCH_MAX);
        said.extend(
            states
                .states
                .into_iter()
                .map(|entry| format!("{}={}", entry.id, entry.status.unwrap_or_default().state)),
        );
    }
    said
}

#[test]
fn nothing_is_said_before_the_greeting_and_all_of_it_after() {
    let mut reporter = Reporter::default();
    reporter.set(&id(1), status("Pending"));
    reporter.set(&id(2), status("Running"));
    assert_eq!(said(&mut reporter), [""; 0]);
    reporter.greeted();
    assert_eq!(said(&mut reporter), ["i1=Pending", "i2=Running"]);
    reporter.greeted();
    assert_eq!(said(&mut reporter), ["i1=Pending", "i2=Running"], "a new connection knows nothing");
}

#[test]
fn only_the_latest_state_is_said_and_only_if_it_is_news() {
    let mut reporter = Reporter::default();
    reporter.greeted();
    reporter.set(&id(1), status("Pending"));
    reporter.set(&id(1), status("Running"));
    assert_eq!(said(&mut reporter), ["i1=Running"]);
    reporter.set(&id(1), status("Running"));
    assert_eq!(said(&mut reporter), [""; 0]);
    reporter.set(&id(1), status("Stopping"));
    reporter.set(&id(1), status("Running"));
    assert_eq!(said(&mut reporter), [""; 0], "there and back again is no news");
}

#[test]
fn removal_is_said_once_even_by_who_was_never_heard_of() {
    let mut reporter = Reporter::default();
    reporter.set(&id(1), status("Running"));
    reporter.removed(&id(1), 3);
    reporter.removed(&id(2), 1);
    reporter.greeted();
    assert_eq!(said(&mut reporter), ["i1=Removed", "i2=Removed"]);
    reporter.greeted();
    assert_eq!(said(&mut reporter), [""; 0]);
}

#[test]
fn what_comes_back_after_its_removal_is_said_as_new() {
    let mut reporter = Reporter::default();
    reporter.greeted();
    reporter.removed(&id(1), 1);
    reporter.set(&id(1), status("Running"));
    assert_eq!(said(&mut reporter), ["i1=Running"]);
    reporter.greeted();
    assert_eq!(said(&mut reporter), ["i1=Running"]);
}

#[test]
fn messages_are_bounded_without_breaking_characters() {
    let mut reporter = Reporter::default();
    let long = WorkloadInstanceStatus { message: "ü".repeat(5000), ..status("Failed") };
    reporter.set(&id(1), long);
    let message = &reporter.entries[&id(1)].latest.message;
    assert_eq!(message.chars().count(), MESSAGE_MAX_CHARS + 1);
}

proptest! {
    /// However often states change and however rarely there is room, the server ends up with the
    /// truth, and never more waits than there are instances.
    #[test]
    fn the_server_ends_up_with_the_truth(
        steps in proptest::collection::vec((0_usize..8, 0_u8..4), 0..400),
    ) {
        let mut reporter = Reporter::default();
        reporter.greeted();
        let (mut truth, mut server) = (BTreeMap::new(), BTreeMap::new());
        for (number, state) in steps {
            if state == 3 {
                hear(&mut reporter, &mut server);
            } else {
                let state = ["Pending", "Running", "Failed"][usize::from(state)];
                reporter.set(&id(number), status(state));
                truth.insert(format!("i{number}"), state.to_owned());
            }
            prop_assert!(reporter.dirty.len() <= truth.len());
        }
        hear(&mut reporter, &mut server);
        prop_assert_eq!(truth, server);
    }
}

fn hear(reporter: &mut Reporter, server: &mut BTreeMap<String, String>) {
    for line in said(reporter) {
        let (id, state) = line.split_once('=').expect("as said() writes it");
        server.insert(id.to_owned(), state.to_owned());
    }
}

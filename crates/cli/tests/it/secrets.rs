//! Secrets: kept, shown to who asks, and nowhere else.
use crate::harness::{Home, ORRERY, Process, until};
use orrery_testkit::etcd::Cluster;
use std::path::{Path, PathBuf};

/// What must not be found anywhere, and its base64, which is how it is written in manifests.
const PLANTED: &str = "planted-7f3a9c-do-not-leak";
const PLANTED_TEXT: &str = "planted-as-text-51be07";
const PLANTED_BASE64: &str = "cGxhbnRlZC03ZjNhOWMtZG8tbm90LWxlYWs=";
const PLANTED_TEXT_BASE64: &str = "cGxhbnRlZC1hcy10ZXh0LTUxYmUwNw==";

/// The manifest of a secret, with a copy of itself in an annotation, as `kubectl apply` leaves it.
fn manifest(name: &str) -> String {
    format!(
        "apiVersion: core.orrery.dev/v1\nkind: Secret\nmetadata:\n  name: {name}\n  project: default\n  \
         annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{{\"spec\":{{\"data\":\
         {{\"password\":\"{PLANTED_BASE64}\"}}}}}}'\nspec:\n  data:\n    password: {PLANTED_BASE64}\n  \
         stringData:\n    note: {PLANTED_TEXT}\n"
    )
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
    found
}

/// No file below these places holds what was planted, except the ones that a person wrote.
#[track_caller]
fn nothing_leaked(places: &[PathBuf]) {
    let mut read = 0;
    for place in places {
        let all = if place.is_dir() { files(place) } else { vec![place.clone()] };
        for file in all {
            // Files of a running store come and go.
            let Ok(bytes) = std::fs::read(&file) else { continue };
            read += bytes.len();
            for word in [PLANTED, PLANTED_TEXT, PLANTED_BASE64, PLANTED_TEXT_BASE64] {
                let leaked = bytes.windows(word.len()).any(|window| window == word.as_bytes());
                assert!(!leaked, "{word} stands in {}", file.display());
            }
        }
    }
    assert!(1000 < read, "something was looked at");
}

/// What the command line logs at its most talkative; its answer is not looked at here.
fn logged(home: &Home, url: &str, arguments: &[&str]) -> String {
    let all = [arguments, &["--server", url, "--log", "trace"]].concat();
    let done = home.orrery(&all);
    assert_eq!(done.code, Some(0), "{arguments:?}");
    for word in [PLANTED, PLANTED_TEXT, PLANTED_BASE64, PLANTED_TEXT_BASE64] {
        assert!(!done.err.contains(word), "{word} is logged by {arguments:?}");
    }
    done.out
}

fn agent(home: &Home, url: &str) -> Process {
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", "local", "--server", url, "--log", "trace", "--data-dir"]);
    command.arg(home.path("agent")).arg("--stop-workloads");
    command.stderr(std::fs::File::create(home.path("agent.log")).unwrap());
    Process(command.spawn().unwrap())
}

#[test]
fn a_planted_secret_is_found_nowhere_and_shown_to_who_asks() {
    let home = Home::new();
    let audit = home.path("audit.log").to_str().unwrap().to_owned();
    let trace = ["--log", "trace", "--audit-log", &audit].map(str::to_owned);
    let (_server, url) = home.server("data", &trace);
    let _agent = agent(&home, &url);
    let file = home.write("secret.yaml", manifest("db"));
    let file = file.to_str().unwrap();
    logged(&home, &url, &["apply", "-f", file]);
    logged(&home, &url, &["apply", "-f", file]);
    let table = logged(&home, &url, &["get", "secrets"]);
    assert!(table.contains("db") && !table.contains("cGxh"), "{table}");
    let shown = logged(&home, &url, &["get", "secret", "db", "-o", "yaml"]);
    assert!(shown.contains(PLANTED_BASE64) && shown.contains(PLANTED_TEXT_BASE64), "{shown}");
    assert!(!shown.contains("stringData"), "text was taken in: {shown}");
    let described = logged(&home, &url, &["describe", "secret", "db"]);
    assert!(described.contains("26 bytes") && !described.contains("cGxh"), "{described}");
    let changed = manifest("db").replace(PLANTED_BASE64, "b3RoZXI=");
    let changed = home.write("changed.yaml", changed);
    let arguments = ["diff", "-f", changed.to_str().unwrap(), "--server", &url, "--log", "trace"];
    let diff = home.orrery(&arguments);
    assert!(diff.out.contains("-    password: \"*** (before)\""), "{}", diff.out);
    assert!(!diff.out.contains("cGxh") && !diff.err.contains(PLANTED), "{}", diff.out);
    let bad = home.write("bad.yaml", manifest("bad").replace(PLANTED_BASE64, "%%planted-7f3a9c%%"));
    let refused = home.orrery(&["apply", "-f", bad.to_str().unwrap(), "--server", &url]).bad(1);
    assert!(!refused.contains("planted-7f3a9c"), "{refused}");
    let backup = home.path("all.backup");
    logged(&home, &url, &["backup", backup.to_str().unwrap()]);
    let node = until("the agent is there", || {
        let nodes = home.orrery(&["get", "nodes", "-o", "name", "--server", &url]).good();
        nodes.contains("local").then_some(nodes)
    });
    assert_eq!(node, "node/local\n");
    until("the audit log speaks of the secret", || {
        let text = std::fs::read_to_string(home.path("audit.log")).unwrap();
        text.contains("\"kind\":\"Secret\"").then_some(())
    });
    let places = ["data", "data.log", "agent", "agent.log", "all.backup", "audit.log"];
    nothing_leaked(&places.map(|name| home.path(name)));

    // The backup is of use with the key, and only with it.
    let restored = home.path("restored");
    let restored = restored.to_str().unwrap();
    home.orrery(&["restore", backup.to_str().unwrap(), "--data-dir", restored]).good();
    let refused =
        home.orrery(&["server", "--listen", "127.0.0.1:0", "--data-dir", restored]).bad(1);
    assert!(refused.contains("encryption.key"), "{refused}");
    std::fs::copy(home.path("data/encryption.key"), home.path("restored/encryption.key")).unwrap();
    let (_again, url) = home.server("restored", &[]);
    let shown = home.orrery(&["get", "secret", "db", "-o", "yaml", "--server", &url]).good();
    assert!(shown.contains(PLANTED_BASE64), "{shown}");
}

/// The key that seals, as `orrery secrets status` shows it, and how many objects it has sealed.
fn sealing(home: &Home, url: &str) -> (String, u32, String) {
    let status = home.orrery(&["secrets", "status", "--server", url]).good();
    let line = status.lines().find(|line| line.contains(" yes ")).unwrap_or_default().to_owned();
    let mut words = line.split_whitespace();
    let key = words.next().unwrap_or_default().to_owned();
    (key, words.nth(1).unwrap_or_default().parse().unwrap_or_default(), status)
}

#[test]
fn two_servers_change_the_key_while_secrets_are_written() {
    let etcd = Cluster::start(1);
    let endpoints = etcd.options("orrery/").endpoints.join(",");
    let home = Home::new();
    let with_key = |key: &str| {
        let key = home.path(key).to_str().unwrap().to_owned();
        let store = format!("etcd://{endpoints}");
        ["--store".to_owned(), store, "--encryption-key-file".to_owned(), key]
    };
    let (one, first) = home.server("one", &with_key("one.key"));
    std::fs::copy(home.path("one.key"), home.path("two.key")).unwrap();
    let (mut two, second) = home.server("two", &with_key("two.key"));
    let apply = |number: usize, url: &str| {
        let file = home.write(&format!("s{number}.yaml"), manifest(&format!("s{number}")));
        home.orrery(&["apply", "-f", file.to_str().unwrap(), "--server", url]).good();
    };
    (0..5).for_each(|number| apply(number, &first));
    let (before, count, _) = sealing(&home, &first);
    assert_eq!(count, 5);
    let rotated = std::thread::scope(|scope| {
        let rotating = scope.spawn(|| home.orrery(&["secrets", "rotate-key", "--server", &first]));
        (5..12).for_each(|number| apply(number, &second));
        rotating.join().unwrap().good()
    });
    assert!(rotated.contains(&before), "{rotated}");
    let (after, count, status) = sealing(&home, &second);
    assert_ne!(after, before);
    assert_eq!(count, 12, "{status}");
    nothing_leaked(&[etcd.folder().to_owned(), home.path("one.log"), home.path("two.log")]);

    // The old key can go: nothing is sealed with it, on either server.
    two.kill();
    let text = std::fs::read_to_string(home.path("two.key")).unwrap();
    assert_eq!(text.lines().count(), 2, "the new key, and the old one for old backups");
    let newest = text.lines().next().unwrap().to_owned();
    assert!(newest.contains(&after));
    std::fs::write(home.path("two.key"), newest).unwrap();
    let (_two, second) = home.server("two", &with_key("two.key"));
    let all = home.orrery(&["get", "secrets", "-o", "yaml", "--server", &second]).good();
    assert_eq!(all.matches(&format!("password: {PLANTED_BASE64}")).count(), 12);

    // Somebody with another key is told so, and cannot begin.
    std::fs::remove_file(home.path("two.key")).unwrap();
    let mut arguments = vec!["server", "--listen", "127.0.0.1:0"];
    let more = with_key("two.key");
    arguments.extend(more.iter().map(String::as_str));
    let refused = home.orrery(&arguments).bad(1);
    assert!(refused.contains("two.key is not there") && refused.contains(&after), "{refused}");
    let other = orrery_server::Keyring::generate().to_text();
    let mut command = home.command(ORRERY);
    command.args(["server", "--listen", "127.0.0.1:0", "--store", &more[1]]);
    command.env("ORRERY_ENCRYPTION_KEY", other.trim_end().split(' ').next().unwrap());
    let refused = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(refused.contains(&after) && refused.contains("copy the key file"), "{refused}");
    drop(one);
}

/// Who changes a key because somebody else knows it must not have to stay for it.
#[test]
fn a_change_of_keys_goes_on_without_whoever_asked_for_it() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let many: Vec<String> = (0..300).map(|number| manifest(&format!("s{number}"))).collect();
    let file = home.write("many.yaml", many.join("\n---\n"));
    home.orrery(&["apply", "-f", file.to_str().unwrap(), "--server", &url]).good();
    let (before, count, status) = sealing(&home, &url);
    assert_eq!(count, 300, "{status}");
    let mut asking = home.command(ORRERY);
    let mut asking = asking.args(["secrets", "rotate-key", "--server", &url]).spawn().unwrap();
    until("the new key seals", || (sealing(&home, &url).0 != before).then_some(()));
    asking.kill().unwrap();
    asking.wait().unwrap();
    until("everything is sealed with it", || (sealing(&home, &url).1 == 300).then_some(()));
}

//! Over ssh, with an ssh server of the test's own.
use crate::sshd::{Key, Sshd, secret};
use crate::support::*;
use orrery_proto::core::v1::GitSyncStatus;
use orrery_testkit::world::{World, WorldOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server whose copies are in a folder with a name that ssh could take apart.
async fn odd_world() -> (World, TempDir) {
    let held = tempfile::tempdir().unwrap();
    let mut operations = operations();
    operations.git.folder = Some(held.path().join("it's a 100%h \"odd\" name"));
    (world_with(WorldOptions { operations, ..<_>::default() }).await, held)
}

fn new_workload(name: &str) -> Value {
    json!({
        "apiVersion": "apps.orrery.dev/v1", "kind": "Workload",
        "metadata": {"name": name, "project": PROJECT},
        "spec": {"process": {"command": "x"}, "placement": {"nodes": ["n1"]}},
    })
}

/// What stands in the way, as "Reason: message".
fn fetched(status: &GitSyncStatus) -> String {
    let fetched = status.conditions.iter().find(|it| it.r#type == "Fetched");
    fetched.map(|it| format!("{}: {}", it.reason, it.message)).unwrap_or_default()
}

/// proves: HUB-17
#[tokio::test]
async fn a_key_opens_a_repository_both_ways() {
    let ((world, _held), repository, sshd) =
        (odd_world().await, Repository::new(), Sshd::start().await);
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let key = Key::make(sshd.folder.path(), "ada", "");
    sshd.admit(&[&key.public]);
    let hosts = sshd.scan().await;
    apply(&world.hub, &secret("key", &[("ssh-key", &key.private), ("known-hosts", &hosts)])).await;
    let opened = json!({"secret": "key", "writeBack": {}});
    apply(&world.hub, &sync("s", &sshd.url(&repository.bare), opened)).await;
    synced(&world, "s", &first).await;
    apply(&world.hub, &new_workload("b")).await;
    eventually("it is in git", async || repository.show("workloads/b.yaml")).await;
    repository.pull();
    let second = repository.push(&[("a.yaml", None)]);
    synced(&world, "s", &second).await;
    let gone = async || find(&world.hub, "Workload", "a").await.is_none().then_some(());
    eventually("it is gone", gone).await;
}

/// A host that is not who it was is not spoken with, and nothing of the project changes.
#[tokio::test]
async fn a_host_with_another_key_is_not_believed() {
    let (world, repository, sshd) = (world().await, Repository::new(), Sshd::start().await);
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let key = Key::make(sshd.folder.path(), "ada", "");
    sshd.admit(&[&key.public]);
    let known = |hosts: &str| secret("key", &[("ssh-key", &key.private), ("known-hosts", hosts)]);
    let hosts = sshd.scan().await;
    apply(&world.hub, &known(&hosts)).await;
    let url = sshd.url(&repository.bare);
    apply(&world.hub, &sync("s", &url, json!({"secret": "key"}))).await;
    synced(&world, "s", &first).await;

    sshd.change_host_key();
    let expect = format!(
        "HostRefused: the host 127.0.0.1:{} has another key than those in \"known-hosts\" of the \
         secret \"key\": ask who runs it whether the key was changed; if so, put there what \
         ssh-keyscan prints, else somebody is in between",
        sshd.port
    );
    let status = until(&world, "s", |it| it.state == "Failing").await;
    assert_eq!(fetched(&status), expect);
    assert!(find(&world.hub, "Workload", "a").await.is_some());

    apply(&world.hub, &known("other.example.test ssh-ed25519 AAAA\n")).await;
    let expect = format!(
        "HostRefused: \"known-hosts\" of the secret \"key\" has no key of the host 127.0.0.1:{0}: \
         compare what ssh-keyscan -p {0} 127.0.0.1 prints with what who runs it says, and put it there",
        sshd.port
    );
    until(&world, "s", |it| fetched(it) == expect).await;
    let hosts = sshd.scan().await;
    apply(&world.hub, &known(&hosts)).await;
    synced(&world, "s", &first).await;
}

/// Each key that does not fit says why, and how to mend it.
#[tokio::test]
async fn keys_that_do_not_open_say_why() {
    let (world, repository, sshd) = (world().await, Repository::new(), Sshd::start().await);
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let folder = sshd.folder.path();
    let (key, stranger) = (Key::make(folder, "ada", ""), Key::make(folder, "eve", ""));
    let locked = Key::make(folder, "locked", "open sesame");
    let old = ["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame"];
    let old = Key::make_with(folder, "old", &old);
    sshd.admit(&[&key.public, &locked.public, &old.public]);
    let hosts = sshd.scan().await;
    let known = |key: &str| secret("key", &[("ssh-key", key), ("known-hosts", &hosts)]);
    let url = sshd.url(&repository.bare);
    apply(&world.hub, &known(&stranger.private)).await;
    apply(&world.hub, &sync("s", &url, json!({"secret": "key"}))).await;
    let refused = format!(
        "KeyRefused: the host 127.0.0.1:{} does not let in the \"ssh-key\" of the secret \"key\"",
        sshd.port
    );
    let locked_says = "SecretUnfit: the secret \"key\" has an \"ssh-key\" with a passphrase, which \
                       nobody is there to type: make one without for this sync";
    let public_says = "SecretUnfit: the secret \"key\" has a public key as \"ssh-key\": put the private \
                       one there";
    let broken_says = "SecretUnfit: the secret \"key\" has an \"ssh-key\" that is none: put there the \
                       whole file that ssh-keygen made";
    let half = &key.private[..key.private.len() / 2];
    for (value, expect) in [
        (stranger.private.as_str(), refused.as_str()),
        (&locked.private, locked_says),
        (&old.private, locked_says),
        (&key.public, public_says),
        ("not a key", broken_says),
        (half, broken_says),
    ] {
        apply(&world.hub, &known(value)).await;
        let told = until(&world, "s", |it| fetched(it).starts_with(expect)).await;
        assert!(!fetched(&told).contains("BEGIN"), "{told:?}");
    }
    // As it comes out of forms and other systems: without its last line feed, or with two for each.
    for value in [key.private.trim_end().to_owned(), key.private.replace('\n', "\r\n")] {
        apply(&world.hub, &known(&stranger.private)).await;
        until(&world, "s", |it| fetched(it).starts_with(&refused)).await;
        apply(&world.hub, &known(&value)).await;
        synced(&world, "s", &first).await;
    }
}

/// As hosts do it with keys that may only read.
#[tokio::test]
async fn a_key_that_may_only_read_says_so_when_it_writes() {
    let (world, repository, sshd) = (world().await, Repository::new(), Sshd::start().await);
    let first = repository.push(&[("a.yaml", Some(&workload("a", "one")))]);
    let key = Key::make(sshd.folder.path(), "ada", "");
    let only = format!(
        "restrict,command=\"case \\\"$SSH_ORIGINAL_COMMAND\\\" in git-upload-pack*) \
         eval \\\"$SSH_ORIGINAL_COMMAND\\\";; *) echo 'this key may only read' >&2; exit 1;; esac\" {}",
        key.public
    );
    sshd.admit(&[&only]);
    let hosts = sshd.scan().await;
    apply(&world.hub, &secret("key", &[("ssh-key", &key.private), ("known-hosts", &hosts)])).await;
    let opened = json!({"secret": "key", "writeBack": {}});
    apply(&world.hub, &sync("s", &sshd.url(&repository.bare), opened)).await;
    synced(&world, "s", &first).await;
    apply(&world.hub, &new_workload("b")).await;
    let told = |it: &GitSyncStatus| {
        let ready = it.conditions.iter().find(|it| it.r#type == "Ready");
        ready.map(|it| format!("{}: {}", it.reason, it.message)).unwrap_or_default()
    };
    let status = until(&world, "s", |it| told(it).starts_with("PushFailed")).await;
    assert!(told(&status).contains("this key may only read"), "{}", told(&status));
    assert_eq!(repository.latest(), first);
    sshd.admit(&[&key.public]);
    eventually("it is in git", async || repository.show("workloads/b.yaml")).await;
}

/// What real git says of a commit, to somebody who trusts this key for this address.
fn verified(repository: &Repository, email: &str, key: &Key) -> (bool, String) {
    let signers = key.path.with_extension("signers");
    std::fs::write(&signers, format!("{email} {}\n", key.public)).unwrap();
    let trusted = format!("gpg.ssh.allowedSignersFile={}", signers.display());
    let output = std::process::Command::new("git")
        .args(["-c", "gpg.format=ssh", "-c", &trusted, "verify-commit", "-v", "main"])
        .current_dir(&repository.bare)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Commits are signed by the key of a secret, which git itself verifies; and not at all when that key
/// cannot be had.
#[tokio::test]
async fn commits_are_signed_by_the_key_of_a_secret() {
    let ((world, _held), repository) = (odd_world().await, Repository::new());
    let folder = tempfile::tempdir().unwrap();
    let (key, other) = (Key::make(folder.path(), "robot", ""), Key::make(folder.path(), "eve", ""));
    apply(&world.hub, &secret("signer", &[("ssh-key", key.private.trim_end())])).await;
    let back = json!({"signingSecret": "signer", "authorName": "Robot", "authorEmail": "robot@example.test"});
    apply(&world.hub, &sync("s", &repository.url(), json!({"writeBack": back}))).await;
    apply(&world.hub, &new_workload("a")).await;
    eventually("it is in git", async || repository.show("workloads/a.yaml")).await;
    let (good, said) = verified(&repository, "robot@example.test", &key);
    assert!(good && said.contains("Good \"git\" signature for robot@example.test"), "{said}");
    assert!(!verified(&repository, "robot@example.test", &other).0);
    let before = repository.latest();
    until(&world, "s", |it| it.synced_commit == before).await;

    delete(&world.hub, "Secret", "signer").await;
    let expect =
        "SecretUnfit: the secret \"signer\" is not there: create it in the project of the sync";
    until(&world, "s", |it| fetched(it) == expect).await;
    apply(&world.hub, &new_workload("b")).await;
    let locked = Key::make(folder.path(), "locked", "open sesame");
    apply(&world.hub, &secret("signer", &[("ssh-key", &locked.private)])).await;
    until(&world, "s", |it| fetched(it).contains("with a passphrase")).await;
    assert_eq!(repository.latest(), before, "nothing is committed without its signature");
    let pem = ["-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""];
    let old = Key::make_with(folder.path(), "old", &pem);
    apply(&world.hub, &secret("signer", &[("ssh-key", &old.private)])).await;
    until(&world, "s", |it| fetched(it).contains("ssh-keygen -p -N '' -f FILE writes it anew"))
        .await;
    assert_eq!(repository.latest(), before, "nothing is committed without its signature");
    let anew = ["-q", "-p", "-N", "", "-f"];
    let anew = std::process::Command::new("ssh-keygen").args(anew).arg(&old.path).status();
    assert!(anew.unwrap().success());
    let private = std::fs::read_to_string(&old.path).unwrap();
    apply(&world.hub, &secret("signer", &[("ssh-key", &private)])).await;
    eventually("it is in git", async || repository.show("workloads/b.yaml")).await;
    assert!(verified(&repository, "robot@example.test", &old).0);
}

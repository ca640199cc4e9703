//! Kill -9 of server and agent at random moments, over and over: in the end every workload is what
//! was asked for, exactly once.
use crate::harness::{Home, ORRERY, Process, alive, until};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

/// Rounds of a test; `cargo xtask soak fleet` asks for many times as many.
fn rounds() -> usize {
    let times = std::env::var("ORRERY_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    6 * times
}

fn agent(home: &Home, server: &str) -> Process {
    let mut command = home.command(ORRERY);
    command.args(["agent", "--name", "edge", "--server", server, "--data-dir"]);
    command.arg(home.path("agent")).stderr(Stdio::null());
    Process(command.spawn().unwrap())
}

fn manifest(name: &str, version: usize) -> String {
    format!(
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\n\
         metadata: {{name: {name}, project: default}}\n\
         spec:\n  process:\n    command: sh\n    args: [-c, 'exec sleep 1000']\n    \
         env: {{VERSION: '{version}'}}\n  placement: {{nodes: [edge]}}\n  stopGraceSeconds: 1\n"
    )
}

/// The processes that say that they belong to a workload of this test: version by workload and pid.
fn processes(home: &Home) -> BTreeMap<(String, u32), String> {
    let mark = home.path("agent").join("instances").display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let found = pids.filter_map(|pid| {
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        if !folder.starts_with(&mark) || name.trim() != "sleep" || !alive(pid) {
            return None;
        }
        let environ = std::fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
        let value = |name: &str| {
            environ
                .split('\0')
                .find_map(|v| v.strip_prefix(name)?.strip_prefix('='))
                .map(str::to_owned)
        };
        Some(((value("ORRERY_WORKLOAD")?, pid), value("VERSION")?))
    });
    found.collect()
}

struct End<'a>(&'a Home);

impl Drop for End<'_> {
    /// What a failed test leaves must not run on.
    fn drop(&mut self) {
        for (_, pid) in processes(self.0).into_keys() {
            crate::harness::signal(pid, rustix::process::Signal::KILL);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the point is to strike at an arbitrary moment")]
fn while_passing(chance: &mut StdRng, longest_ms: u64) {
    std::thread::sleep(Duration::from_millis(chance.random_range(0..longest_ms)));
}

/// proves: AGT-14, AGT-15
#[test]
fn after_any_number_of_kills_every_workload_runs_once() {
    let seed: u64 = rand::random();
    let mut chance = StdRng::seed_from_u64(seed);
    let home = Home::new();
    let _end = End(&home);
    let listen = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Nothing on ports that everybody would choose.
    let off = ["--drivers-listen", "off", "--storage-listen", "off"].map(str::to_owned);
    let at = [&["--listen".to_owned(), listen.to_string()], &off[..]].concat();
    let start = || home.server_at("store", &at);
    let (mut server, url) = start();
    let mut worker = agent(&home, &url);
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds() {
        let name = format!("w{}", chance.random_range(0..4));
        if wanted.contains_key(&name) && chance.random_bool(0.3) {
            let deleted =
                home.orrery(&["delete", "workload", &name, "--no-wait", "--server", &url]);
            assert_eq!(deleted.code, Some(0), "seed {seed}: {deleted:?}");
            wanted.remove(&name);
        } else {
            let file = home.write(&format!("{name}.yaml"), manifest(&name, round));
            let file = file.to_str().unwrap();
            let applied = until("the workload is applied", || {
                // One of that name may still be on its way out.
                let applied = home.orrery(&["apply", "-f", file, "--server", &url]);
                (applied.code == Some(0)).then_some(applied)
            });
            drop(applied);
            wanted.insert(name, round);
        }
        while_passing(&mut chance, 400);
        if chance.random_bool(0.6) {
            worker.kill();
            while_passing(&mut chance, 200);
            worker = agent(&home, &url);
        }
        if chance.random_bool(0.5) {
            server.kill();
            while_passing(&mut chance, 200);
            (server, _) = start();
        }
    }
    let expect: Vec<(String, String)> =
        wanted.iter().map(|(name, version)| (name.clone(), version.to_string())).collect();
    until(&format!("everything is as asked for (seed {seed}): {expect:?}"), || {
        let there = processes(&home);
        let there: Vec<(String, String)> =
            there.into_iter().map(|((name, _), version)| (name, version)).collect();
        let list = home.orrery(&["get", "workloads", "-o", "json", "--server", &url]);
        let list: Value = serde_json::from_str(&list.out).ok()?;
        let all = list["items"].as_array()?;
        let running = all.iter().filter(|item| item["status"]["state"] == "Running").count();
        (there == expect && all.len() == expect.len() && running == expect.len()).then_some(())
    });
    for name in wanted.keys() {
        home.orrery(&["delete", "workload", name, "--server", &url]).good();
    }
    assert!(processes(&home).is_empty(), "nothing is left");
    drop((server, worker));
}

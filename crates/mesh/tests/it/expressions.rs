//! One expression that Envoy cannot read would have it refuse the routes of every service.
use crate::backend::Backend;
use crate::control_plane::{Mesh, name};
use crate::envoy::Envoy;
use crate::wait::until;
use orrery_mesh::envoy::Mode;
use orrery_mesh::expression;
use orrery_mesh::topology::{self, HttpMatch, TrafficSplit};

/// Fine for Rust, and refused or read otherwise by Envoy.
const UNREADABLE: [&str; 8] = [
    "(?x)/a",
    r"/\u{61}",
    "(?R)/a",
    "/[a--b]",
    "/a**",
    "/a{1001}",
    "/(a{100}){100}",
    "(?P<a.b>/x)",
];

/// Taken by us, so Envoy has to take them too.
const READABLE: [&str; 16] = [
    "",
    "/a|/b",
    "/(?i)x",
    "(?U)/a+",
    r"/\d+\W\s",
    "/[[:alpha:]]",
    r"/\pL",
    r"/\p{Lu}",
    r"/\p{Thai}",
    r"/\x{61}\x41",
    r"/\bx\B\z",
    "/é",
    "/[à-ü]{100}",
    "/(a{10}){100}",
    "/[^/]{1,1000}",
    r"/\-\/\&a??",
];

fn split(named: &str, matches: Vec<HttpMatch>) -> TrafficSplit {
    TrafficSplit {
        name: named.to_owned(),
        root: name("shop/books"),
        backends: vec![topology::Backend { service: name("shop/v2"), weight: 1 }],
        matches,
    }
}

fn path(regex: &str) -> HttpMatch {
    HttpMatch { path_regex: Some(regex.to_owned()), ..HttpMatch::default() }
}

fn header(named: &str, regex: &str) -> HttpMatch {
    let headers = [(named.to_owned(), regex.to_owned())].into();
    HttpMatch { headers, ..path("/never") }
}

/// Classes of every category and script that we know to be in both languages, and what is as large as may be.
fn known() -> impl Iterator<Item = String> {
    let names = expression::CATEGORIES.into_iter().chain(expression::SCRIPTS);
    let classes = names.map(|named| format!(r"/never\p{{{named}}}\P{{{named}}}"));
    classes
        .chain([format!("/never{}", r"\pL".repeat(13)), format!("/never{}", "[^/]".repeat(1900))])
}

/// proves: MSH-07
#[tokio::test]
async fn no_expression_keeps_the_others_from_a_proxy() {
    let mesh = Mesh::new(&["shop/web", "shop/books", "shop/v2"]);
    let backends = [Backend::start("v1").await, Backend::start("v2").await];
    mesh.place("shop/books", &[backends[0].endpoint]);
    mesh.place("shop/v2", &[backends[1].endpoint]);
    let server = mesh.serve().await;
    let envoy = Envoy::start(mesh.bootstrap("shop/web", server.address, Mode::Aggregated)).await;
    let bad = UNREADABLE.iter().flat_map(|regex| [path(regex), header("x", regex)]);
    let names = ["", "a\nb", "a\0b"].map(|named| header(named, "x"));
    mesh.topology.put_split(split("bad", bad.chain(names).collect()));
    let good = known().chain(READABLE.map(|regex| format!("/never{regex}")));
    let good: Vec<String> = good.collect();
    for regex in &good {
        assert_eq!(expression::problem(regex), None, "{regex}");
    }
    let good = good.iter().flat_map(|regex| [path(regex), header("x-y", regex)]);
    mesh.topology.put_split(split("good", good.chain([path("/beta")]).collect()));
    until("what is declared last is in effect", async || {
        envoy.get("books", "/beta").await == (200, "v2".to_owned())
    })
    .await;
    until("everything was accepted", async || server.all_current()).await;
    assert_eq!(envoy.get("books", "/").await, (200, "v1".to_owned()));
}

//! `orrery top`.
use crate::harness::Home;

#[test]
fn top_server_says_how_busy_the_server_is() {
    let home = Home::new();
    let (_server, url) = home.server("data", &[]);
    let table = home.orrery(&["top", "server", "--server", &url]).good();
    let value = |what: &str| {
        let line = table.lines().find(|line| line.starts_with(what)).unwrap_or_default();
        line[what.len()..].trim().to_owned()
    };
    assert_eq!(value("server"), url);
    assert_eq!(value("commanders"), "1", "{table}");
    assert!(value("memory").ends_with("MiB"), "{table}");
    assert_ne!(value("objects"), "0", "{table}");
    assert!(value("requests ").ends_with("/s"), "{table}");
}

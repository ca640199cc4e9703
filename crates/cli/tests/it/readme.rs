//! The README's tour, run as written.
use crate::harness::{Home, ORRERY, repository};
use std::path::Path;

/// The lines of the shell blocks below a heading.
fn commands(heading: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let section = readme.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap();
    let mut commands = Vec::new();
    for block in section.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap();
        commands.extend(block.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    commands
}

#[test]
fn the_two_commands_are_the_ones_that_work() {
    let home = Home::new();
    let two = commands("Try it");
    assert_eq!(two.len(), 2, "{two:?}");
    // Cargo builds what this test was built with, and runs it with what stands behind the dashes.
    let up = two[0].strip_prefix("cargo run --release -- ").expect("the first one starts it");
    let arguments: Vec<&str> = up.split_whitespace().collect();
    assert_eq!(arguments, ["up"]);
    let _up = home.up();
    let apply = two[1].strip_prefix("cargo run --release -- ").expect("the second one uses it");
    home.orrery(&apply.split_whitespace().collect::<Vec<_>>()).good();
}

#[test]
fn the_tour_works_as_written() {
    let home = Home::new();
    let _up = home.up();
    let folder = Path::new(ORRERY).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(folder.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let tour = commands("A first tour");
    assert!(8 < tour.len(), "the tour is a tour: {tour:?}");
    for line in tour {
        let mut shell = home.command("sh");
        shell.env("PATH", path.as_ref().unwrap()).args(["-euc", &line]);
        let done = crate::harness::Done::from(shell.output().unwrap());
        assert_eq!(done.code, Some(0), "{line}: {done:?}");
    }
}

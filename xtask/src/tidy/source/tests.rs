use super::*;

/// The rules broken by a file at this path, with their lines.
#[track_caller]
fn check_at(path: &str, text: &str, expect: &[(usize, &str)]) {
    let file = SourceFile { path: path.into(), text: text.to_owned() };
    let found = check(&file);
    let found: Vec<(usize, &str)> = found.iter().map(|one| (one.line, one.rule)).collect();
    assert_eq!(found, expect, "{path}:\n{text}");
}

#[track_caller]
fn check_code(text: &str, expect: &[(usize, &str)]) {
    check_at("crates/hub/src/lib.rs", text, expect);
}

#[test]
fn unwrap_outside_of_tests() {
    check_code("fn f() { x.unwrap(); }", &[(1, "unwrap")]);
    check_code("fn f() {\n  g(|| x.y().unwrap());\n}", &[(2, "unwrap")]);
    check_code("fn f() { vec![x.unwrap()]; }", &[(1, "unwrap")]);
    check_code("fn f() { format!(\"{}\", g(x.unwrap())); }", &[(1, "unwrap")]);
    check_code("fn f() { x.expect(\"why\"); x.unwrap_or(1); x.unwrap_or_default(); }", &[]);
    check_code("#[cfg(test)] mod tests { fn f() { x.unwrap(); } }", &[]);
    check_code("#[cfg(all(test, unix))] mod tests { fn f() { x.unwrap(); } }", &[]);
    check_code("#[cfg(not(test))] mod real { fn f() { x.unwrap(); } }", &[(1, "unwrap")]);
    check_code("#[cfg(any(test, unix))] mod real { fn f() { x.unwrap(); } }", &[(1, "unwrap")]);
    check_code("#[test] fn f() { x.unwrap(); }\nfn g() { x.unwrap(); }", &[(2, "unwrap")]);
    check_code("#[tokio::test] async fn f() { x.unwrap(); }", &[]);
    check_at("crates/hub/tests/it/main.rs", "fn f() { x.unwrap(); }", &[]);
    check_at("crates/hub/src/plan/tests.rs", "fn f() { x.unwrap(); }", &[]);
    check_at("crates/hub/src/tests_of_life.rs", "fn f() { x.unwrap(); }", &[(1, "unwrap")]);
}

#[test]
fn unfinished_macros_anywhere() {
    for name in UNFINISHED {
        check_code(&format!("fn f() {{ {name}!() }}"), &[(1, "leftover")]);
        check_code(&format!("fn f() {{ vec![{name}!(x)]; }}"), &[(1, "leftover")]);
        check_code(&format!("#[test] fn f() {{ {name}!() }}"), &[(1, "leftover")]);
    }
}

#[test]
fn ignored_tests() {
    check_code("#[test]\n#[ignore]\nfn f() {}", &[(2, "ignored-test")]);
    check_code("#[test]\n#[ignore = \"slow\"]\nfn f() {}", &[(2, "ignored-test")]);
}

#[test]
fn printing() {
    let text = "fn f() { println!(\"x\"); }";
    check_code(text, &[(1, "print")]);
    check_code("fn f() { eprint!(\"x\"); }", &[(1, "print")]);
    for path in ["crates/cli/src/main.rs", "xtask/src/main.rs", "crates/proto/build.rs"] {
        check_at(path, text, &[]);
    }
    check_at("crates/hub/tests/it/main.rs", text, &[]);
}

#[test]
fn exiting() {
    let text = "fn f() { std::process::exit(1) }";
    check_code(text, &[(1, "exit")]);
    check_code("fn f() { process::exit(1) }", &[(1, "exit")]);
    check_at("crates/hub/tests/it/main.rs", text, &[(1, "exit")]);
    check_at("crates/cli/src/main.rs", text, &[]);
}

#[test]
fn naked_spawns() {
    check_code("fn f() { tokio::spawn(g()); }", &[(1, "naked-spawn")]);
    check_code("fn f() { tokio::task::spawn(g()); }", &[(1, "naked-spawn")]);
    check_code("fn f() { task::spawn(g()); }", &[(1, "naked-spawn")]);
    check_code("fn f() { set.spawn(g()); tracker.spawn(g()); }", &[]);
    check_code("#[tokio::test] async fn f() { tokio::spawn(g()); }", &[]);
    let text = "fn f() { tokio::spawn(g()); }";
    check_at("crates/store/src/conformance/watches.rs", text, &[]);
    check_at("crates/testkit/src/world.rs", text, &[]);
}

#[test]
fn long_functions() {
    let function = |lines: usize| format!("fn f() {{\n{}}}", "    g();\n".repeat(lines - 2));
    check_code(&function(70), &[]);
    check_code(&function(71), &[(1, "function-size")]);
    check_code(&format!("/// Doc.\n{}", function(70)), &[]);
    check_code(&format!("impl X {{\n{}\n}}", function(71)), &[(2, "function-size")]);
    check_code(&format!("trait X {{\n{}\n}}", function(71)), &[(2, "function-size")]);
    check_code(
        &format!("#[cfg(test)]\nmod tests {{\n{}\n}}", function(71)),
        &[(3, "function-size")],
    );
}

#[test]
fn broken_code_is_a_finding() {
    check_code("fn f( {", &[(1, "syntax")]);
}

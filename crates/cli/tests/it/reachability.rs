//! What the command line says when there is no server.
use crate::harness::Home;

/// proves: AGT-04
#[test]
fn a_server_that_is_not_available_is_said_once() {
    let home = Home::new();
    // A port that was free a moment ago, and that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for command in [&["get", "projects"][..], &["version"], &["apply", "-f", "examples/hello.yaml"]]
    {
        let arguments = [command, &["--server", &url]].concat();
        let said = home.orrery(&arguments).bad(3);
        assert!(said.contains(&format!("the server at {url} is not available")), "{said}");
        assert!(said.contains("orrery up"), "it says what to do: {said}");
    }
}

/// proves: AGT-04
#[test]
fn a_lost_connection_is_said() {
    let home = Home::new();
    let mut up = home.up();
    let mut watching = home
        .command(crate::harness::ORRERY)
        .args(["get", "projects", "--watch"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(watching.stdout.take().unwrap());
    let mut header = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut header).unwrap();
    assert!(header.starts_with("NAME"), "{header}");
    up.kill();
    let ended = watching.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("was lost"), "{said}");
}

#[test]
fn an_address_that_is_none_is_said() {
    let home = Home::new();
    for (address, problem) in [
        ("127.0.0.1:7443", "it must begin with http:// or https://"),
        ("ftp://host:1", "it must begin with http:// or https://"),
        ("http://host", "host or port is missing"),
        ("https://host:1", "https needs --root, --certificate and --key"),
    ] {
        let said = home.orrery(&["get", "projects", "--server", address]).bad(1);
        assert!(said.contains(problem), "{address}: {said}");
    }
}

#[test]
fn wrong_usage_is_explained_and_has_a_code_of_its_own() {
    let home = Home::new();
    let said = home.orrery(&["aply"]).bad(2);
    assert!(said.contains("apply"), "{said}");
    let said = home.orrery(&["get"]).bad(2);
    assert!(said.contains("KIND"), "{said}");
}

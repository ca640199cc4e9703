//! What podman says, in words that help.
use super::super::RuntimeError;
use bollard::errors::Error;

/// Podman's own sentence, without what the way to it adds.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        other => other.to_string(),
    }
}

pub(super) fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}

pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 409, .. })
}

/// What was to be ended has ended meanwhile. Podman says so with a code, or with a state in which
/// nothing can be ended any more.
pub(super) fn is_over(error: &Error) -> bool {
    is_missing(error) || is_conflict(error) || said(error).contains("container state improper")
}

/// Already in the state that was asked for.
pub(super) fn is_unchanged(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 304, .. })
}

/// Why an operation of the agent failed.
pub(super) fn trouble(doing: &'static str) -> impl FnOnce(Error) -> RuntimeError {
    move |error| RuntimeError::Podman(format!("podman cannot {doing}: {}", said(&error)))
}

/// Why a container did not start.
pub(super) fn refused(image: &str, error: &Error) -> String {
    let said = said(error);
    if said.contains("address already in use") || said.contains("port is already allocated") {
        return format!("a port that it asks for is taken on this node: {said}");
    }
    if said.contains("network not found") || said.contains("unable to find network") {
        return format!("podman on this node has no such network: {said}");
    }
    if said.contains("executable file") && said.contains("not found") {
        return format!("its command is not in image {image:?}: {said}");
    }
    format!("podman does not start it: {said}")
}

/// Why its image is not there.
pub(super) fn no_image(image: &str, why: &str) -> String {
    format!("image {image:?} is not on this node, and {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status_code: u16, message: &str) -> Error {
        Error::DockerResponseServerError { status_code, message: message.to_owned() }
    }

    #[track_caller]
    fn check(message: &str, begins: &str) {
        let text = refused("box:1", &server(500, message));
        assert!(text.starts_with(begins) && text.contains(message), "{text}");
    }

    #[test]
    fn what_stands_in_the_way_is_named_first() {
        check("listen tcp4 0.0.0.0:80: bind: address already in use", "a port that it asks for");
        check("unable to find network with name x: network not found", "podman on this node has");
        check("runc: exec: \"x\": executable file not found in $PATH", "its command is not in");
        check("something else", "podman does not start it");
    }

    #[test]
    fn codes_are_told_apart() {
        assert!(is_missing(&server(404, "")) && !is_missing(&server(500, "")));
        assert!(is_conflict(&server(409, "")) && is_unchanged(&server(304, "")));
        let improper =
            "can only kill running containers. 4f is in state stopped: container state improper";
        assert!(is_over(&server(500, improper)) && is_over(&server(404, "")));
        assert!(!is_over(&server(500, "database is locked")));
        assert_eq!(last_line("a\nb\n"), "b");
    }
}

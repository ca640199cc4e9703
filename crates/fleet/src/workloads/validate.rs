//! What the definition of a workload cannot say with options alone.
use orrery_api::{Object, Reason, Violation};
use orrery_proto::apps::v1::{File, Placement, Podman, Workload, WorkloadSpec, workload_spec};
use std::collections::{BTreeMap, HashMap};

/// How much of a bad name is repeated.
const NAME_SHOWN_MAX: usize = 80;

/// Refuses what could never run.
pub fn workload(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    // What cannot be read as a workload has been refused by then, with its own words.
    let Ok(workload) = object.typed::<Workload>() else { return Vec::new() };
    let Some(spec) = &workload.spec else { return Vec::new() };
    let mut found = program(spec);
    found.extend(itself(object.name(), spec));
    for (number, needed) in spec.depends_on.iter().enumerate() {
        if needed.workload() == object.name() {
            let path = format!("spec.dependsOn[{number}].workload");
            let why = "must not be the workload itself, which would wait for ever";
            found.push(Violation::invalid(path, format_args!("{:?}", needed.workload()), why));
        }
    }
    found
}

/// A workload that is placed beside itself would never begin.
fn itself(name: &str, spec: &WorkloadSpec) -> Option<Violation> {
    let beside = spec.placement.as_ref()?.beside.as_deref()?;
    let why = "must not be the workload itself: it goes where the copies of another are";
    let path = "spec.placement.beside";
    (beside == name).then(|| Violation::invalid(path, format_args!("{name:?}"), why))
}

/// Refuses what could never run, whatever the workload is called: also for those who make workloads of it later.
pub fn program(spec: &WorkloadSpec) -> Vec<Violation> {
    let mut found = spec.placement.as_ref().map(placement).unwrap_or_default();
    found.extend(files(spec));
    match &spec.runtime {
        Some(workload_spec::Runtime::Podman(podman)) => {
            found.extend(ports(podman));
            found.extend(command_line(
                "podman",
                [("command", &podman.command), ("args", &podman.args)],
            ));
            found.extend(environment("podman", &podman.env));
        }
        Some(workload_spec::Runtime::Process(process)) => {
            let broken = process.command.as_ref().filter(|command| command.contains('\0'));
            found.extend(broken.map(|_| with_nul("spec.process.command".to_owned())));
            found.extend(command_line("process", [("args", &process.args)]));
            found.extend(environment("process", &process.env));
        }
        None => {}
    }
    found
}

/// What programs are started with ends at the first NUL, which is what the operating system marks ends by.
fn command_line<const N: usize>(runtime: &str, lists: [(&str, &Vec<String>); N]) -> Vec<Violation> {
    let texts = lists.into_iter().flat_map(|(list, texts)| {
        let paths = texts.iter().enumerate();
        paths.map(move |(number, text)| (format!("spec.{runtime}.{list}[{number}]"), text))
    });
    let broken = texts.filter(|(_, text)| text.contains('\0'));
    broken.map(|(path, _)| with_nul(path)).collect()
}

/// Does not repeat the text, which may be long, or a password.
fn with_nul(path: String) -> Violation {
    let why = "must not contain NUL, which no program can be started with";
    Violation::new(path, Reason::Invalid, why)
}

/// A variable is NAME=VALUE to the operating system.
fn environment(runtime: &str, env: &HashMap<String, String>) -> Vec<Violation> {
    let clip = |name: &str| name.escape_debug().take(NAME_SHOWN_MAX).collect::<String>();
    let mut found = Vec::new();
    for (name, value) in env.iter().collect::<BTreeMap<_, _>>() {
        if name.is_empty() || name.contains(['=', '\0']) {
            let why = "must be the name of a variable: not empty, without = and NUL";
            let path = format!("spec.{runtime}.env[{}]", clip(name));
            found.push(Violation::new(path, Reason::Invalid, why));
        }
        if value.contains('\0') {
            found.push(with_nul(format!("spec.{runtime}.env[{}]", clip(name))));
        }
    }
    found
}

/// A path stays below the folder of files; only a container can have files elsewhere.
fn files(spec: &WorkloadSpec) -> Vec<Violation> {
    let contained = matches!(spec.runtime, Some(workload_spec::Runtime::Podman(_)));
    let problem = |file: &File| {
        let path = file.path();
        let parts = path.trim_start_matches('/').split('/');
        if path.starts_with('/') && !contained {
            return Some("must be relative: a process finds its files below ORRERY_FILES");
        }
        let plain = parts.into_iter().all(|part| !matches!(part, "" | "." | ".."));
        (!plain || path.contains(':'))
            .then_some("must be a plain path, without . and .. and colons")
    };
    let found = spec.files.iter().enumerate().filter_map(|(number, file)| {
        let path = format!("spec.files[{number}].path");
        Some(Violation::invalid(path, format_args!("{:?}", file.path()), problem(file)?))
    });
    found.collect()
}

/// Ports are mapped where a container has a network of its own.
fn ports(podman: &Podman) -> Vec<Violation> {
    match podman.network.as_deref() {
        Some(network @ ("host" | "none")) if !podman.ports.is_empty() => {
            let why = format!(
                "must not be given with the network {network:?}, which has no ports to map"
            );
            vec![Violation::new("spec.podman.ports", Reason::Forbidden, &why)]
        }
        Some(_) | None => Vec::new(),
    }
}

fn placement(placement: &Placement) -> Vec<Violation> {
    let path = "spec.placement";
    let named = !placement.nodes.is_empty();
    if placement.beside.is_some() {
        let others = [
            ("nodes", named),
            ("selector", placement.selector.is_some()),
            ("replicas", placement.replicas.is_some()),
        ];
        let why =
            "must not be given together with beside: it runs where the copies of that workload are";
        let given = others.into_iter().filter(|(_, given)| *given);
        let forbid = |(field, _)| Violation::new(format!("{path}.{field}"), Reason::Forbidden, why);
        return given.map(forbid).collect();
    }
    match (&placement.selector, placement.replicas) {
        (None, _) if !named => {
            let hint = "name nodes here, choose them by selector.matchLabels, or name a workload in beside";
            vec![Violation::required(format!("{path}.nodes"), hint)]
        }
        (Some(_), _) if named => {
            let why = "must not be given together with selector: either names or labels";
            vec![Violation::new(format!("{path}.nodes"), Reason::Forbidden, why)]
        }
        (None, Some(_)) => {
            let why = "needs a selector: each node in nodes gets one copy";
            vec![Violation::new(format!("{path}.replicas"), Reason::Forbidden, why)]
        }
        (None, None) | (Some(_), _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::NodeSelector;

    #[track_caller]
    fn check(nodes: &[&str], selector: bool, replicas: Option<i32>, expect: &str) {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        let selector = selector.then(NodeSelector::default);
        let found = placement(&Placement { nodes, selector, replicas, beside: None });
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths.join(" "), expect);
    }

    #[track_caller]
    fn check_beside(placement_of: Placement, name: &str, expect: &str) {
        let spec = Some(WorkloadSpec {
            placement: Some(Placement { beside: Some("web".into()), ..placement_of }),
            ..WorkloadSpec::default()
        });
        let mut found = placement(spec.as_ref().and_then(|spec| spec.placement.as_ref()).unwrap());
        found.extend(itself(name, spec.as_ref().unwrap()));
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths.join(" "), expect);
    }

    #[test]
    fn beside_another_nothing_else_says_where() {
        check_beside(Placement::default(), "log", "");
        check_beside(Placement::default(), "web", "spec.placement.beside");
        let nodes = Placement { nodes: vec!["a".into()], ..Placement::default() };
        check_beside(nodes, "log", "spec.placement.nodes");
        let (selector, replicas) = (Some(NodeSelector::default()), Some(1));
        let both = Placement { selector, replicas, ..Placement::default() };
        check_beside(both, "log", "spec.placement.selector spec.placement.replicas");
    }

    #[track_caller]
    fn check_file(path: &str, contained: bool, good: bool) {
        let file = File { path: Some(path.into()), ..File::default() };
        let runtime = contained.then(|| workload_spec::Runtime::Podman(Podman::default()));
        let spec = WorkloadSpec { files: vec![file], runtime, ..WorkloadSpec::default() };
        assert_eq!(files(&spec).is_empty(), good, "{path}");
    }

    #[test]
    fn files_stay_where_they_belong() {
        check_file("key", false, true);
        check_file("a/b.c", false, true);
        check_file("/etc/x", false, false);
        check_file("/etc/x", true, true);
        check_file("../x", true, false);
        check_file("a//b", true, false);
        check_file("a:b", true, false);
        check_file("/", true, false);
    }

    #[track_caller]
    fn check_env(name: &str, value: &str, good: bool) {
        let env = HashMap::from([(name.to_owned(), value.to_owned())]);
        let found = environment("process", &env);
        assert_eq!(found.is_empty(), good, "{found:?}");
        let path = format!("spec.process.env[{}]", name.escape_debug());
        assert!(found.iter().all(|it| it.path == path), "{found:?}");
    }

    #[test]
    fn variables_and_arguments_can_be_handed_to_a_program() {
        check_env("PATH", "/bin=x", true);
        check_env("with space", "", true);
        check_env("A=B", "", false);
        check_env("", "x", false);
        check_env("A\0B", "x", false);
        check_env("A", "x\0", false);
        let args = vec!["good".to_owned(), "b\0d".to_owned()];
        let found = command_line("process", [("args", &args)]);
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["spec.process.args[1]"]);
        let found = command_line("podman", [("command", &args), ("args", &Vec::new())]);
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["spec.podman.command[1]"]);
    }

    #[test]
    fn ports_need_a_network_of_their_own() {
        let port = orrery_proto::apps::v1::PortMapping::default();
        let podman = |network: Option<&str>| Podman {
            network: network.map(str::to_owned),
            ports: vec![port.clone()],
            ..Podman::default()
        };
        assert!(ports(&podman(None)).is_empty() && ports(&podman(Some("mine"))).is_empty());
        assert_eq!(ports(&podman(Some("host"))).len() + ports(&podman(Some("none"))).len(), 2);
    }

    #[test]
    fn either_names_or_labels() {
        check(&["a"], false, None, "");
        check(&[], true, None, "");
        check(&[], true, Some(3), "");
        check(&[], false, None, "spec.placement.nodes");
        check(&["a"], true, None, "spec.placement.nodes");
        check(&["a"], false, Some(2), "spec.placement.replicas");
    }
}

use super::*;
use orrery_hub::ObjectName;
use orrery_proto::core::v1::{
    AccessRule, AccessSubject, Role as RoleKind, RoleBinding, RoleBindingSpec, RoleSpec,
};

/// `verbs groups resources names`, each separated by commas, `-` for none.
fn mk_rule(text: &str) -> AccessRule {
    let mut words = text.split(' ').map(|word| match word {
        "-" => Vec::new(),
        word => word.split(',').map(str::to_owned).collect(),
    });
    let mut next = || words.next().unwrap_or_default();
    AccessRule { verbs: next(), groups: next(), resources: next(), names: next() }
}

pub(crate) fn mk_rules(
    roles: &[(&str, &str, &[&str])],
    bindings: &[(&str, &str, &str, &str)],
) -> Rules {
    let roles: Vec<(ObjectName, RoleKind)> = roles
        .iter()
        .map(|(project, name, rules)| {
            let spec = RoleSpec { rules: rules.iter().map(|rule| mk_rule(rule)).collect() };
            let role = RoleKind { spec: Some(spec), ..RoleKind::default() };
            (ObjectName::new(*project, *name), role)
        })
        .collect();
    let bindings: Vec<(ObjectName, RoleBinding)> = bindings
        .iter()
        .map(|(project, name, role, subject)| {
            let (kind, who) = subject.split_once(':').unwrap();
            let subject = AccessSubject { kind: Some(kind.to_owned()), name: Some(who.to_owned()) };
            let spec = RoleBindingSpec { role: Some((*role).to_owned()), subjects: vec![subject] };
            let binding = RoleBinding { spec: Some(spec), ..RoleBinding::default() };
            (ObjectName::new(*project, *name), binding)
        })
        .collect();
    Rules::new(
        roles.iter().map(|(name, role)| (name.clone(), role)),
        bindings.iter().map(|(name, binding)| (name.clone(), binding)),
    )
}

pub(crate) fn person(name: &str, groups: &[&str]) -> Subject {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Subject::person(name.to_owned(), groups, KnownBy::Token)
}

fn machine(role: Role, name: &str) -> Subject {
    Subject { role: Some(role), known_by: KnownBy::Certificate, ..person(name, &[]) }
}

/// `verb group/resource[/sub] project name`, `-` for none.
fn mk_asked(text: &str) -> Attributes {
    let words: Vec<&str> = text.split(' ').collect();
    let [verb, what, project, name] = words[..] else { panic!("{text}") };
    let mut what = what.split('/');
    let (group, resource) = (what.next().unwrap(), what.next().unwrap());
    let word = |word: &str| if word == "-" { String::new() } else { word.to_owned() };
    Attributes::new(verb, group, resource)
        .named(&word(project), &word(name))
        .part(what.next().unwrap_or_default())
}

#[track_caller]
fn check(rules: &Rules, subject: &Subject, asked: &str, expect: bool) {
    let decision = decide(rules, subject, &mk_asked(asked));
    assert_eq!(decision.allowed(), expect, "{} {asked}: {decision:?}", subject.name);
}

/// Every verb on every resource that a test asks about.
fn every_operation() -> Vec<String> {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let resources = [
        "apps.orrery.dev/workloads",
        "apps.orrery.dev/workloads/status",
        "apps.orrery.dev/workloads/log",
        "apps.orrery.dev/workloads/exec",
        "apps.orrery.dev/workloadinstances",
        "core.orrery.dev/secrets",
        "core.orrery.dev/projects",
        "core.orrery.dev/roles",
        "core.orrery.dev/rolebindings",
        "core.orrery.dev/jointokens",
        "core.orrery.dev/accesstokens",
        "core.orrery.dev/revocations",
        "core.orrery.dev/authorities",
        "core.orrery.dev/backups",
        "infra.orrery.dev/nodes",
        "infra.orrery.dev/drivers",
        "infra.orrery.dev/machineclasses",
        "infra.orrery.dev/machines",
        "mesh.orrery.dev/proxies",
        "mesh.orrery.dev/meshservices",
        "storage.orrery.dev/storagecontrollers",
        "storage.orrery.dev/volumes",
    ];
    let mut all = Vec::new();
    for verb in verbs {
        for resource in resources {
            for name in ["own", "neighbour"] {
                all.push(format!("{verb} {resource} demo {name}"));
            }
        }
    }
    all
}

/// proves: AGT-12, VOL-09
/// Every role against every operation: who may do everything, who may do nothing but see what is
/// its own, and that nobody reaches for a neighbour's.
#[test]
fn every_role_against_every_operation() {
    let rules = mk_rules(&[], &[]);
    let plain = Subject::plain();
    let server = machine(Role::Server, "own");
    let admin = person("root", &[ADMINS]);
    let nobody = Subject::unknown();
    let stranger = person("own", &[]);
    let machines = [
        (machine(Role::Agent, "own"), "get infra.orrery.dev/nodes demo own"),
        (machine(Role::Driver, "own"), "get infra.orrery.dev/drivers demo own"),
        (machine(Role::Proxy, "own"), "get mesh.orrery.dev/proxies demo own"),
        (machine(Role::Controller, "own"), "get storage.orrery.dev/storagecontrollers demo own"),
        (machine(Role::Host, "own"), "nothing"),
    ];
    for operation in every_operation() {
        check(&rules, &plain, &operation, true);
        check(&rules, &server, &operation, true);
        check(&rules, &admin, &operation, true);
        check(&rules, &nobody, &operation, false);
        check(&rules, &stranger, &operation, false);
        for (machine, own) in &machines {
            check(&rules, machine, &operation, operation == *own);
        }
    }
}

/// A machine's certificate that names the group of administrators is still a machine's.
#[test]
fn machines_are_in_no_group() {
    let admins = format!("Group:{ADMINS}");
    let rules = mk_rules(&[], &[("system", "b", "admin", &admins)]);
    let mut agent = machine(Role::Agent, "edge-1");
    agent.groups.push(ADMINS.to_owned());
    check(&rules, &agent, "get core/secrets demo db", false);
}

#[test]
fn roles_hold_in_their_project_and_those_of_system_everywhere() {
    let rules = mk_rules(
        &[
            ("demo", "reader", &["get,list apps workloads -"]),
            ("system", "reader", &["get apps workloads -"]),
            ("system", "ops", &["* infra nodes,nodes/* -"]),
        ],
        &[
            ("demo", "a", "reader", "User:ann"),
            ("other", "b", "reader", "User:bob"),
            ("system", "c", "ops", "Group:ops"),
            ("system", "d", "reader", "User:dan"),
            ("demo", "e", "missing", "User:eve"),
        ],
    );
    let (ann, bob, dan) = (person("ann", &[]), person("bob", &[]), person("dan", &[]));
    let (ops, eve) = (person("zoe", &["ops"]), person("eve", &[]));
    check(&rules, &ann, "get apps.orrery.dev/workloads demo web", true);
    check(&rules, &ann, "list apps/workloads demo -", true);
    check(&rules, &ann, "delete apps/workloads demo web", false);
    check(&rules, &ann, "get apps/workloads other web", false);
    check(&rules, &ann, "list apps/workloads - -", false);
    check(&rules, &ann, "get apps/workloads/status demo web", false);
    check(&rules, &ann, "get infra/nodes - edge-1", false);
    // The role of the binding's own project comes first, then the one of system.
    check(&rules, &bob, "get apps/workloads other web", true);
    check(&rules, &bob, "list apps/workloads other -", false);
    check(&rules, &dan, "get apps/workloads demo web", true);
    check(&rules, &dan, "get apps/workloads - -", true);
    check(&rules, &dan, "list apps/workloads demo -", false);
    check(&rules, &ops, "delete infra.orrery.dev/nodes - edge-1", true);
    check(&rules, &ops, "update infra/nodes/status - edge-1", true);
    check(&rules, &ops, "get apps/workloads demo web", false);
    check(&rules, &eve, "get apps/workloads demo web", false);
}

#[test]
fn names_stars_and_parts() {
    let rules = mk_rules(
        &[(
            "demo",
            "r",
            &[
                "get apps workloads web,db",
                "get apps workloads/log -",
                "update * */status -",
                "create apps workloads -",
            ],
        )],
        &[("demo", "b", "r", "User:ann")],
    );
    let ann = person("ann", &[]);
    check(&rules, &ann, "get apps/workloads demo web", true);
    check(&rules, &ann, "get apps/workloads demo other", false);
    check(&rules, &ann, "get apps/workloads demo -", false);
    check(&rules, &ann, "get apps/workloads/log demo other", true);
    check(&rules, &ann, "get apps/workloads/exec demo other", false);
    check(&rules, &ann, "update infra/nodes/status demo x", true);
    check(&rules, &ann, "update infra/nodes demo x", false);
    check(&rules, &ann, "create apps/workloads demo new", true);
}

#[test]
fn the_roles_that_every_server_knows() {
    let rules = mk_rules(
        &[],
        &[
            ("demo", "a", "viewer", "User:vic"),
            ("demo", "b", "editor", "User:ed"),
            ("demo", "c", "admin", "User:adm"),
        ],
    );
    let table = [
        // operation, viewer, editor, admin
        ("get apps/workloads demo web", true, true, true),
        ("watch apps/workloads demo -", true, true, true),
        ("get apps/workloads/log demo web", true, true, true),
        ("create apps/workloads demo web", false, true, true),
        ("create apps/workloads/exec demo web", false, true, true),
        ("get core/secrets demo db", false, true, true),
        ("list core/secrets demo -", false, true, true),
        ("get core/events demo x", true, true, true),
        ("get core/roles demo x", false, false, true),
        ("create core/rolebindings demo x", false, false, true),
        ("get apps/workloads other web", false, false, false),
        ("create core/rolebindings other x", false, false, false),
        ("get core/jointokens - x", false, false, false),
        ("create core/accesstokens - x", false, false, false),
        ("get infra/nodes - edge-1", false, false, false),
        ("create core/projects - x", false, false, false),
    ];
    for (operation, viewer, editor, admin) in table {
        check(&rules, &person("vic", &[]), operation, viewer);
        check(&rules, &person("ed", &[]), operation, editor);
        check(&rules, &person("adm", &[]), operation, admin);
    }
}

#[test]
fn permissions_are_what_decide_decides() {
    let rules = mk_rules(
        &[("demo", "r", &["get apps workloads -"])],
        &[("demo", "b", "r", "User:ann"), ("system", "s", "viewer", "User:ann")],
    );
    let ann = person("ann", &[]);
    assert_eq!(permissions(&rules, &ann, "demo").len(), 3);
    assert_eq!(permissions(&rules, &ann, "other").len(), 2);
    assert_eq!(permissions(&rules, &Subject::plain(), "demo"), [Rule::everything()]);
    assert_eq!(permissions(&rules, &Subject::unknown(), "demo"), []);
    for operation in every_operation() {
        let asked = mk_asked(&operation);
        let listed = permissions(&rules, &ann, "demo").iter().any(|rule| permits(rule, &asked));
        assert_eq!(listed, decide(&rules, &ann, &asked).allowed(), "{operation}");
    }
}

use super::*;
use crate::decide::permits;
use crate::decide::tests::{mk_rules, person};
use orrery_pki::ADMINS;
use orrery_proto::core::v1::GitWriteBack;
use proptest::prelude::*;

fn mk_rule(text: &str) -> Rule {
    let mut words = text.split(' ').map(|word| match word {
        "-" => Vec::new(),
        word => word.split(',').map(str::to_owned).collect(),
    });
    let mut next = || words.next().unwrap_or_default();
    Rule { verbs: next(), groups: next(), resources: next(), names: next() }
}

#[track_caller]
fn check(held: &[&str], wanted: &str, expect: bool) {
    let held: Vec<Rule> = held.iter().map(|text| mk_rule(text)).collect();
    let found = missing(&held, &[mk_rule(wanted)]);
    assert_eq!(found.is_none(), expect, "{held:?} over {wanted}: {found:?}");
}

#[test]
fn rules_cover_rules() {
    check(&["* * * -"], "get,list apps workloads,workloads/log -", true);
    check(&["get apps workloads -"], "get apps workloads -", true);
    check(&["get apps workloads -"], "get apps workloads web", true);
    check(&["get apps workloads web"], "get apps workloads -", false);
    check(&["get apps workloads web"], "get apps workloads web,db", false);
    check(&["get apps workloads -"], "list apps workloads -", false);
    check(&["get apps workloads -"], "* apps workloads -", false);
    check(&["get apps workloads -"], "get - workloads -", false);
    check(&["get - workloads -"], "get apps workloads -", true);
    check(&["get apps workloads -"], "get apps.orrery.dev workloads -", true);
    check(&["get apps.orrery.dev workloads -"], "get apps workloads -", false);
    check(&["get apps workloads -"], "get apps workloads/log -", false);
    check(&["get apps */log -"], "get apps workloads/log -", true);
    check(&["get apps workloads/* -"], "get apps workloads/log -", true);
    check(&["get apps workloads/* -"], "get apps */log -", false);
    check(&["get apps */* -"], "get apps * -", false);
    check(&["get apps * -"], "get apps */*,workloads -", true);
    // Held in pieces is held.
    check(&["get apps workloads -", "list apps workloads -"], "get,list apps workloads -", true);
    check(
        &["get apps workloads -", "list core secrets -"],
        "get,list apps,core workloads -",
        false,
    );
    // A rule without a verb or a resource gives nothing.
    check(&[], "- apps workloads -", true);
    check(&[], "get apps - -", true);
}

/// A rule with more combinations than are looked at is given only whole.
#[test]
fn large_rules_are_compared_whole() {
    let many: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let large = Rule { verbs: many.clone(), names: many, ..mk_rule("- apps workloads -") };
    let verbs = Rule { verbs: vec!["*".to_owned()], ..mk_rule("- apps workloads -") };
    assert_eq!(missing(&[verbs], std::slice::from_ref(&large)), None);
    assert_eq!(missing(std::slice::from_ref(&large), std::slice::from_ref(&large)), None);
    let (mut front, mut back) = (large.clone(), large.clone());
    front.names.truncate(100);
    back.names.drain(..100);
    assert!(missing(&[front, back], &[large]).is_some(), "in pieces it is not looked for");
}

/// Somebody who may write roles and bindings in a project and read its workloads.
fn delegated(more: &[&str]) -> (Rules, Subject) {
    let mut own = vec!["* core roles,rolebindings -", "get,list apps workloads -"];
    own.extend(more);
    let rules = mk_rules(
        &[
            ("demo", "delegate", &own),
            ("demo", "reader", &["get apps workloads -"]),
            ("demo", "keeper", &["get core secrets -"]),
            ("system", "ops", &["get apps workloads -"]),
            ("demo", "editor", &["get apps workloads -"]),
        ],
        &[("demo", "b", "delegate", "User:dee")],
    );
    (rules, person("dee", &[]))
}

#[test]
fn nobody_gives_what_they_do_not_have() {
    // A star for verbs on roles is "escalate" and "bind" too, as in the reference.
    let own = "get,list,watch,create,update,patch,delete core roles,rolebindings -";
    let rules = mk_rules(
        &[
            ("demo", "delegate", &[own, "get,list apps workloads -"]),
            ("demo", "reader", &["get apps workloads -"]),
            ("demo", "keeper", &["get core secrets -"]),
            ("system", "ops", &["get apps workloads -"]),
            ("demo", "editor", &["get apps workloads -"]),
        ],
        &[("demo", "b", "delegate", "User:dee"), ("other", "b", "ops", "User:dee")],
    );
    let dee = person("dee", &[]);
    let role = |text: &str| may_write_role(&rules, &dee, ("demo", "new"), &[mk_rule(text)]);
    assert_eq!(role("get apps workloads -"), Ok(()));
    assert_eq!(role("get,list apps workloads web"), Ok(()));
    let said = role("get,delete apps workloads -").expect_err("she may not delete").to_string();
    assert!(said.contains("delete workloads of apps") && said.contains("\"demo\""), "{said}");
    assert!(role("* * * -").is_err());
    let elsewhere =
        may_write_role(&rules, &dee, ("other", "new"), &[mk_rule("list apps workloads -")]);
    assert!(elsewhere.is_err(), "what she has in one project she has not in another");
    let bind = |project: &str, name: &str| may_bind(&rules, &dee, project, name);
    assert_eq!(bind("demo", "reader"), Ok(()));
    assert_eq!(bind("demo", "delegate"), Ok(()));
    assert_eq!(bind("demo", "ops"), Ok(()));
    assert!(matches!(bind("demo", "keeper"), Err(Excess::Binding { .. })));
    assert!(matches!(bind("demo", "admin"), Err(Excess::Binding { .. })));
    assert!(matches!(bind("demo", "missing"), Err(Excess::NoRole { .. })));
    assert!(bind("system", "ops").is_err(), "a binding of system holds everywhere");
    // The project's own role of this name hides the one that every server knows, until it goes.
    assert!(matches!(bind("demo", "editor"), Err(Excess::Binding { .. })));
}

/// proves: HUB-17
#[test]
fn a_sync_gives_nobody_what_they_do_not_have() {
    let rules = mk_rules(
        &[
            ("demo", "small", &["get,create apps workloads -"]),
            ("demo", "writer", &["get,create apps workloads -", "* core gitsyncs -"]),
            ("demo", "opener", &["get core secrets key"]),
        ],
        &[("demo", "a", "writer", "User:dee"), ("demo", "b", "opener", "User:dee")],
    );
    let dee = person("dee", &[]);
    let sync = |role: Option<&str>, secret: &str| {
        let (role, secret) = (role.map(str::to_owned), Some(secret.to_owned()));
        let spec = GitSyncSpec { role, secret, ..GitSyncSpec::default() };
        may_sync(&rules, &dee, "demo", &spec)
    };
    assert_eq!(sync(Some("small"), ""), Ok(()));
    assert_eq!(sync(Some("small"), "key"), Ok(()));
    let said = sync(Some("small"), "another").expect_err("she cannot read it").to_string();
    assert!(said.contains("the secret \"another\""), "{said}");
    let signing = |secret: &str| {
        let back = GitWriteBack { signing_secret: Some(secret.to_owned()), ..<_>::default() };
        let spec = GitSyncSpec {
            role: Some("small".to_owned()),
            write_back: Some(back),
            ..GitSyncSpec::default()
        };
        may_sync(&rules, &dee, "demo", &spec)
    };
    assert_eq!(signing("key"), Ok(()));
    assert!(matches!(signing("another"), Err(Excess::Secret { .. })), "she cannot sign as others");
    assert!(matches!(sync(Some("admin"), ""), Err(Excess::Binding { .. })));
    assert!(matches!(sync(None, ""), Err(Excess::Binding { .. })), "the default counts, too");
    assert!(matches!(sync(Some("missing"), ""), Err(Excess::NoRole { .. })));
}

#[test]
fn verbs_that_say_so() {
    let (rules, dee) = delegated(&[]);
    // She has every verb on roles, so these too.
    assert_eq!(may_write_role(&rules, &dee, ("demo", "x"), &[Rule::everything()]), Ok(()));
    assert_eq!(may_bind(&rules, &dee, "demo", "admin"), Ok(()));
    assert!(may_bind(&rules, &dee, "system", "admin").is_err());
    assert!(may_bind(&rules, &dee, "other", "admin").is_err());
}

#[test]
fn those_who_may_do_everything_give_everything() {
    let (rules, _) = delegated(&[]);
    for subject in [person("root", &[ADMINS]), Subject::plain()] {
        assert_eq!(
            may_write_role(&rules, &subject, ("system", "x"), &[Rule::everything()]),
            Ok(())
        );
        assert_eq!(may_bind(&rules, &subject, "system", "missing"), Ok(()));
        assert_eq!(may_stand_for(&rules, &subject, "ann", &[ADMINS.to_owned()]), Ok(()));
    }
}

#[test]
fn tokens_stand_for_those_who_make_them() {
    let rules = mk_rules(
        &[("system", "desk", &["impersonate core users ann", "impersonate core groups ops"])],
        &[("system", "b", "desk", "User:desk")],
    );
    let (dee, desk) = (person("dee", &["ops"]), person("desk", &[]));
    let check = |who: &Subject, user: &str, groups: &[&str], expect: bool| {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let found = may_stand_for(&rules, who, user, &groups);
        assert_eq!(found.is_ok(), expect, "{} for {user} {groups:?}: {found:?}", who.name);
    };
    check(&dee, "dee", &[], true);
    check(&dee, "dee", &["ops"], true);
    check(&dee, "dee", &[ADMINS], false);
    check(&dee, "ann", &[], false);
    check(&desk, "ann", &["ops"], true);
    check(&desk, "ann", &[ADMINS], false);
    check(&desk, "root", &[], false);
}

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(of), 0..3)
        .prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

const VERBS: &[&str] = &["get", "list", "bind", "*"];
const GROUPS: &[&str] = &["apps", "apps.orrery.dev", "core", "", "*"];
const RESOURCES: &[&str] =
    &["workloads", "secrets", "workloads/log", "workloads/*", "*/log", "*/*", "*"];
const NAMES: &[&str] = &["web", "db", "*"];

fn any_rule() -> impl Strategy<Value = Rule> {
    (words(VERBS), words(GROUPS), words(RESOURCES), words(NAMES))
        .prop_map(|(verbs, groups, resources, names)| Rule { verbs, groups, resources, names })
}

fn any_asked() -> impl Strategy<Value = Attributes> {
    let verb = prop::sample::select(&["get", "list", "bind", "other"][..]);
    let group = prop::sample::select(&["apps.orrery.dev", "apps", "core", "x", ""][..]);
    let resource = prop::sample::select(&["workloads", "secrets", "other"][..]);
    let part = prop::sample::select(&["", "log", "exec"][..]);
    let name = prop::sample::select(&["", "web", "db", "other"][..]);
    (verb, group, resource, part, name).prop_map(|(verb, group, resource, part, name)| {
        Attributes::new(verb, group, resource).named("demo", name).part(part)
    })
}

proptest! {
    /// Whoever is let to give rules away permits nothing by them that they could not do themselves.
    #[test]
    fn what_is_given_was_held(
        held in prop::collection::vec(any_rule(), 0..4),
        wanted in prop::collection::vec(any_rule(), 0..3),
        asked in prop::collection::vec(any_asked(), 1..20),
    ) {
        if missing(&held, &wanted).is_none() {
            for asked in &asked {
                let given = wanted.iter().any(|rule| permits(rule, asked));
                let own = held.iter().any(|rule| permits(rule, asked));
                prop_assert!(own || !given, "{asked:?}");
            }
        }
    }

    /// Everybody may give what they have, whole or in parts.
    #[test]
    fn what_is_held_can_be_given(held in prop::collection::vec(any_rule(), 0..4)) {
        prop_assert_eq!(missing(&held, &held), None);
        for rule in &held {
            let narrower = Rule { names: vec!["web".to_owned()], ..rule.clone() };
            let all = rule.names.is_empty() || rule.names.iter().any(|name| name == "*");
            if all {
                prop_assert_eq!(missing(&held, &[narrower]), None);
            }
        }
        prop_assert_eq!(missing(&[Rule::everything()], &held), None);
    }
}

/// Who shares makes something appear elsewhere, and shows what it holds: both must be theirs to do.
///
/// proves: HUB-09
#[test]
fn sharing_gives_what_one_has() {
    let scheme = orrery_api::Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    let scheme = scheme.build().expect("the kinds are well defined");
    let kind = scheme.resolve("", "Secret").expect("a known kind");
    let secret = |projects: &[&str]| {
        let mut object = Object::new(&kind);
        object.set_name("db");
        object.set_project("demo");
        let project = |name: &&str| orrery_api::SharedProject { name: Some((*name).to_owned()) };
        let projects = projects.iter().map(project).collect();
        object.set_sharing(&orrery_api::Sharing { enabled: Some(true), projects });
        object
    };
    let rules = mk_rules(
        &[
            ("demo", "writer", &["create,update core secrets -"]),
            ("demo", "keeper", &["get,create,update core secrets -"]),
            ("b", "writer", &["create core secrets -"]),
            ("system", "all", &["get,create core secrets -"]),
        ],
        &[
            ("demo", "w", "writer", "User:wim"),
            ("b", "w", "writer", "User:wim"),
            ("demo", "k", "keeper", "User:kim"),
            ("b", "k", "writer", "User:kim"),
            ("system", "a", "all", "User:ada"),
        ],
    );
    let share = |who: &str, projects: &[&str], before: Option<&[&str]>| {
        let old = before.map(secret);
        may_give(&rules, &person(who, &[]), &secret(projects), old.as_ref())
    };
    assert_eq!(share("kim", &["b"], None), Ok(()));
    assert!(matches!(share("wim", &["b"], None), Err(Excess::Unread { .. })));
    let said = share("kim", &["b", "c"], None).expect_err("not hers").to_string();
    assert!(said.contains("with project \"c\"") && said.contains("create"), "{said}");
    assert!(matches!(share("kim", &["*"], None), Err(Excess::Sharing { .. })));
    assert_eq!(share("ada", &["*"], None), Ok(()));
    // What is shared already may stay, and may be taken back by anybody who may write it.
    assert_eq!(share("wim", &["b", "c"], Some(&["c", "b"])), Ok(()));
    assert_eq!(share("wim", &["c"], Some(&["*"])), Ok(()));
    assert_eq!(share("wim", &[], Some(&["b"])), Ok(()));
}

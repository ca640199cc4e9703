use super::*;
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn settings(written: bool) -> Settings {
    let origin = Origin { sync: "s".into(), repository: "r".into(), branch: "main".into() };
    let written = if written { BTreeSet::from(["K".to_owned()]) } else { BTreeSet::new() };
    Settings { origin, folder: "app".into(), prune: true, written, readable: true }
}

fn key(name: &str) -> Key {
    Key { kind: "K".into(), name: name.into() }
}

fn lineage(file: &str, git: &str, system: &str) -> Lineage {
    let (file, git, system) = (file.into(), git.into(), system.into());
    Lineage { origin: settings(true).origin, file, git, system }
}

fn declared(digest: &str) -> Option<Declared> {
    Some(Declared { file: "app/a.yaml".into(), digest: digest.into() })
}

fn present(digest: &str, lineage: Option<Lineage>) -> Option<Present> {
    let digest = digest.into();
    Some(Present { digest, lineage, going: false, owned: false, kept_by: None })
}

#[track_caller]
fn check(
    settings: &Settings,
    git: Option<Declared>,
    system: Option<Present>,
    before: Option<&str>,
    expect: Option<Step>,
) {
    let git = git.map(|it| (key("a"), it)).into_iter().collect();
    let system = system.map(|it| (key("a"), it)).into_iter().collect();
    let before = before.map(|digest| BTreeMap::from([(key("a"), digest.to_owned())]));
    let steps = plan(settings, &git, &system, before.as_ref());
    assert_eq!(steps.get(&key("a")), expect.as_ref());
}

/// proves: HUB-17
#[test]
fn what_is_in_git_is_applied() {
    let only_git = settings(false);
    check(&only_git, declared("1"), None, None, Some(Step::Apply));
    check(&only_git, declared("1"), present("0", None), None, Some(Step::Apply));
    let known = || Some(lineage("app/a.yaml", "1", "1"));
    check(&only_git, declared("1"), present("1", known()), None, None);
    check(&only_git, declared("2"), present("1", known()), None, Some(Step::Apply));
    // Whoever changes it here finds it as git says soon after.
    check(&only_git, declared("1"), present("3", known()), None, Some(Step::Apply));
    // It was moved.
    let moved = Some(lineage("app/b.yaml", "1", "1"));
    check(&only_git, declared("1"), present("1", moved), None, Some(Step::Apply));
}

/// proves: HUB-17
#[test]
fn what_left_git_is_deleted_only_if_it_came_from_there() {
    let (only_git, known) = (settings(false), || Some(lineage("app/a.yaml", "1", "1")));
    check(&only_git, None, present("1", known()), None, Some(Step::Delete));
    check(&only_git, None, present("1", None), None, None);
    let elsewhere = Some(lineage("other/a.yaml", "1", "1"));
    check(&only_git, None, present("1", elsewhere), None, None);
    let mut another = lineage("app/a.yaml", "1", "1");
    another.origin.repository = "another".into();
    check(&only_git, None, present("1", Some(another)), None, None);
    let unreadable = Settings { readable: false, ..settings(false) };
    check(&unreadable, None, present("1", known()), None, None);
    let keeping = Settings { prune: false, ..settings(false) };
    check(&keeping, None, present("1", known()), None, None);
}

/// proves: HUB-17
#[test]
fn what_changes_here_is_written() {
    let (both, known) = (settings(true), || Some(lineage("app/a.yaml", "1", "1")));
    let in_place = || Some(Step::Write(Some("app/a.yaml".into())));
    check(&both, declared("1"), present("2", known()), None, in_place());
    check(&both, declared("3"), present("2", known()), None, Some(Step::Apply));
    check(&both, None, present("2", None), None, Some(Step::Write(None)));
    let owned = present("2", None).map(|it| Present { owned: true, ..it });
    check(&both, None, owned, None, None);
    check(&both, declared("1"), None, Some("1"), Some(Step::Remove("app/a.yaml".into())));
    check(&both, declared("2"), None, Some("1"), Some(Step::Apply));
    check(&settings(false), declared("1"), None, Some("1"), Some(Step::Apply));
}

#[test]
fn two_syncs_do_not_fight_over_an_object() {
    let kept = present("1", None).map(|it| Present { kept_by: Some("other".into()), ..it });
    let refused = Some(Step::Refuse("other".into()));
    check(&settings(true), declared("1"), kept.clone(), None, refused);
    check(&settings(true), None, kept, None, None);
}

/// Both sides, as texts by name; a digest is the text itself.
#[derive(Clone, Debug)]
struct Sides {
    git: BTreeMap<Key, Declared>,
    system: BTreeMap<Key, Present>,
    before: BTreeMap<Key, String>,
}

fn sides() -> impl Strategy<Value = Sides> {
    let text = || select(&["1", "2", "3"][..]).prop_map(str::to_owned);
    let name = || select(&["a", "b", "c", "d"][..]).prop_map(key);
    let file = || select(&["app/x.yaml", "app/y.yaml"][..]).prop_map(str::to_owned);
    let foreign = select(&["r", "another"][..]);
    let known = (file(), text(), foreign).prop_map(|(file, same, repository)| {
        let mut known = lineage(&file, &same, &same);
        known.origin.repository = repository.to_owned();
        known
    });
    let there = (text(), option::weighted(0.7, known), prop::bool::weighted(0.1)).prop_map(
        |(digest, lineage, owned)| Present { digest, lineage, going: false, owned, kept_by: None },
    );
    let said = (file(), text()).prop_map(|(file, digest)| Declared { file, digest });
    let (git, system) = (btree_map(name(), said, 0..4), btree_map(name(), there, 0..4));
    (git, system, btree_map(name(), text(), 0..4)).prop_map(|(git, system, before)| Sides {
        git,
        system,
        before,
    })
}

impl Sides {
    /// Does what the plan says, as the rest of the crate does.
    fn carry_out(&mut self, settings: &Settings, steps: &Steps) {
        for (key, step) in steps {
            match step {
                Step::Apply => {
                    let Declared { file, digest } = self.git[key].clone();
                    let known = Some(lineage(&file, &digest, &digest));
                    self.system.insert(key.clone(), present(&digest, known).expect("it is there"));
                }
                Step::Delete => drop(self.system.remove(key)),
                Step::Write(file) => {
                    let file = file.clone().unwrap_or_else(|| format!("app/{}.yaml", key.name));
                    let here = self.system.get_mut(key).expect("only what is there is written");
                    here.lineage = Some(lineage(&file, &here.digest, &here.digest));
                    let digest = here.digest.clone();
                    self.git.insert(key.clone(), Declared { file, digest });
                }
                Step::Remove(_) => drop(self.git.remove(key)),
                Step::Refuse(_) => {}
            }
        }
        let said = self.git.iter().map(|(key, it)| (key.clone(), it.digest.clone()));
        self.before = said.collect();
        assert_eq!(plan(settings, &self.git, &self.system, Some(&self.before)), Steps::new());
    }
}

proptest! {
    /// proves: HUB-17
    #[test]
    fn after_a_sync_both_sides_are_the_same(mut sides in sides()) {
        let settings = settings(true);
        let steps = plan(&settings, &sides.git, &sides.system, Some(&sides.before));
        sides.carry_out(&settings, &steps);
        let declared: BTreeMap<_, _> = sides.git.iter().map(|(k, it)| (k, &it.digest)).collect();
        let free = sides.system.iter().filter(|(k, it)| sides.git.contains_key(k) || !it.owned);
        let there: BTreeMap<_, _> = free.map(|(k, it)| (k, &it.digest)).collect();
        prop_assert_eq!(declared, there);
    }

    /// proves: HUB-16
    #[test]
    fn nothing_without_lineage_is_ever_deleted(sides in sides(), written: bool, readable: bool) {
        let settings = Settings { readable, ..settings(written) };
        let steps = plan(&settings, &sides.git, &sides.system, Some(&sides.before));
        for (key, step) in &steps {
            if *step == Step::Delete {
                let known = sides.system[key].lineage.as_ref();
                prop_assert!(known.is_some_and(|known| known.origin == settings.origin));
                prop_assert!(!sides.git.contains_key(key));
            }
            let loses = matches!(step, Step::Delete | Step::Remove(_));
            prop_assert!(readable || !loses, "nothing goes while a file cannot be read");
        }
    }

    /// Without write-back git is never written.
    #[test]
    fn without_write_back_git_stays_as_it_is(sides in sides()) {
        let steps = plan(&settings(false), &sides.git, &sides.system, Some(&sides.before));
        let writes = steps.values().any(|step| matches!(step, Step::Write(_) | Step::Remove(_)));
        prop_assert!(!writes);
    }
}

use super::*;
use proptest::prelude::*;

fn claim() -> impl Strategy<Value = Claim> {
    (any::<bool>(), any::<bool>(), 0..5_i64).prop_map(|(own, shared, made)| Claim {
        own,
        shared,
        age: (made, 0, String::new()),
    })
}

proptest! {
    /// A project reads what is its own or shared with it and nothing else; it reads something whenever there is
    /// something to read; its own comes first, and then what was there first.
    ///
    /// proves: HUB-09
    #[test]
    fn one_of_those_that_may_be_read_is_chosen(claims in prop::collection::vec(claim(), 0..6)) {
        let found = chosen(claims.iter().map(|claim| (claim.clone(), claim)));
        prop_assert_eq!(found.is_some(), claims.iter().any(|claim| claim.own || claim.shared));
        if let Some(found) = found {
            prop_assert!(found.own || found.shared);
            prop_assert!(found.own || !claims.iter().any(|claim| claim.own), "own comes first");
            let like = claims.iter().filter(|it| it.own == found.own && it.is_readable());
            prop_assert!(like.clone().all(|it| found.age <= it.age));
        }
    }

    /// More that somebody else shares later under the same name changes nothing.
    #[test]
    fn who_comes_later_hides_nothing(claims in prop::collection::vec(claim(), 0..6)) {
        let before = chosen(claims.iter().map(|claim| (claim.clone(), claim.age.0)));
        let late = Claim { own: false, shared: true, age: (9, 0, String::new()) };
        let all = claims.iter().chain([&late]);
        let after = chosen(all.map(|claim| (claim.clone(), claim.age.0)));
        prop_assert_eq!(after, before.or(Some(9)));
    }
}

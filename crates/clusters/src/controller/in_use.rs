//! What is in use stays: a deletion waits for those who use it, and says for whom.
use orrery_proto::meta::v1::Condition;

/// How many users are named.
const NAMED_MAX: usize = 5;

/// The condition of something that is to go and is still used.
pub fn condition(users: &[String], generation: i64) -> Condition {
    let shown: Vec<&str> = users.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = match users.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Condition {
        r#type: "InUse".to_owned(),
        status: "True".to_owned(),
        reason: "Waiting".to_owned(),
        message: format!("it goes when these do not name it any more: {}{more}", shown.join(", ")),
        observed_generation: generation,
        last_transition_time: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_users_are_named_and_the_others_counted() {
        let users: Vec<String> = (0..7).map(|number| format!("cluster/{number}")).collect();
        let said = |users: &[String]| condition(users, 1).message;
        assert!(said(&users[..1]).ends_with(": cluster/0"), "{}", said(&users[..1]));
        assert!(said(&users).ends_with("cluster/4 and 2 more"), "{}", said(&users));
    }
}

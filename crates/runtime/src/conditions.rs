//! Conditions: one aspect of a state each.
use orrery_proto::meta::v1::Condition;
use prost_types::Timestamp;

/// Puts a condition among the others. The time of transition moves only when the status changes.
pub fn set(conditions: &mut Vec<Condition>, mut next: Condition, now: Timestamp) {
    match conditions.iter_mut().find(|condition| condition.r#type == next.r#type) {
        Some(old) => {
            let same = old.status == next.status;
            next.last_transition_time =
                if same { old.last_transition_time.or(Some(now)) } else { Some(now) };
            *old = next;
        }
        None => {
            next.last_transition_time = Some(now);
            conditions.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, message: &str) -> Condition {
        Condition {
            r#type: "Ready".into(),
            status: status.into(),
            message: message.into(),
            ..Condition::default()
        }
    }

    #[test]
    fn the_time_of_transition_moves_with_the_status_only() {
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        let mut conditions = Vec::new();
        set(&mut conditions, condition("False", "a"), at(1));
        set(&mut conditions, condition("False", "b"), at(2));
        assert_eq!(conditions[0].last_transition_time, Some(at(1)));
        assert_eq!(conditions[0].message, "b");
        set(&mut conditions, condition("True", "b"), at(3));
        assert_eq!((conditions.len(), conditions[0].last_transition_time), (1, Some(at(3))));
    }
}

//! Noticing that a controller has fallen silent.
use crate::status::{self, ready};
use async_trait::async_trait;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_proto::storage::v1::{StorageController, StorageControllerStatus};
use orrery_runtime::{Next, Reconciler, conditions};
use prost_types::Timestamp;
use std::{sync::Arc, time::Duration};

/// What a controller that does not say how often it registers is expected to do.
const REFRESH_SECONDS_DEFAULT: i64 = 60;
/// A controller that registers every second may still be held up for so long.
const SILENCE_SECONDS_MIN: i64 = 15;

/// How long a controller may be silent: two of its registrations may get lost.
pub fn silence_seconds(refresh_seconds: i64) -> i64 {
    let refresh = if 0 < refresh_seconds { refresh_seconds } else { REFRESH_SECONDS_DEFAULT };
    refresh.saturating_mul(3).max(SILENCE_SECONDS_MIN)
}

/// How old the last written contact may become before it is written again. Contacts are not written
/// one by one: they would be most of what a store with many controllers is told.
pub fn precision_seconds(refresh_seconds: i64) -> i64 {
    silence_seconds(refresh_seconds) / 4
}

/// What is known about a controller now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Heard of; look again after so many seconds.
    Ready(i64),
    Silent,
    Never,
}

pub fn judge(last_contact: Option<i64>, refresh_seconds: i64, now: i64) -> Verdict {
    let Some(last) = last_contact else { return Verdict::Never };
    match last.saturating_add(silence_seconds(refresh_seconds)).saturating_sub(now) {
        left if 0 < left => Verdict::Ready(left),
        _ => Verdict::Silent,
    }
}

/// Brings state and condition in line with the time.
pub fn settle(status: &mut StorageControllerStatus, now: Timestamp) -> Verdict {
    let last = status.last_contact_time.map(|time| time.seconds);
    let verdict = judge(last, status.refresh_seconds, now.seconds);
    let silence = silence_seconds(status.refresh_seconds);
    let (state, truth, reason, message) = match verdict {
        Verdict::Ready(_) => ("Ready", "True", "Registered", "the controller registers".to_owned()),
        Verdict::Silent => (
            "Silent",
            "False",
            "NotHeardOf",
            format!(
                "it has not registered for more than {silence} s: it is down, cut off, or was \
                 registered by hand"
            ),
        ),
        Verdict::Never => (
            "Unknown",
            "Unknown",
            "NeverHeardOf",
            "somebody wrote it down by hand, and it never registered itself".to_owned(),
        ),
    };
    state.clone_into(&mut status.state);
    reason.clone_into(&mut status.reason);
    message.clone_into(&mut status.message);
    conditions::set(&mut status.conditions, ready(truth, reason, &message, 0), now);
    verdict
}

/// Looks at one controller whenever it may have fallen silent.
pub struct LivenessReconciler {
    controllers: Resources<StorageController>,
    clock: Arc<dyn Clock>,
}

impl LivenessReconciler {
    pub fn new(hub: &Hub) -> Result<Self, Error> {
        Ok(Self { controllers: hub.resources()?, clock: hub.clock().clone() })
    }
}

#[async_trait]
impl Reconciler<ObjectName> for LivenessReconciler {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, Error> {
        let now = self.clock.now();
        let settled = status::update(&self.controllers, key, |controller| {
            settle(controller.status.get_or_insert_default(), now);
        });
        let Some(controller) = settled.await? else { return Ok(Next::AwaitChange) };
        let mut known = controller.status.unwrap_or_default();
        Ok(match settle(&mut known, now) {
            Verdict::Ready(left) => {
                Next::After(Duration::from_secs(u64::try_from(left).unwrap_or_default()))
            }
            Verdict::Silent | Verdict::Never => Next::AwaitChange,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, judge, precision_seconds, silence_seconds};
    use proptest::prelude::*;

    #[test]
    fn silence_is_three_missed_registrations() {
        assert_eq!(judge(Some(100), 60, 100), Verdict::Ready(180));
        assert_eq!(judge(Some(100), 60, 279), Verdict::Ready(1));
        assert_eq!(judge(Some(100), 60, 280), Verdict::Silent);
        assert_eq!(judge(Some(100), 0, 279), Verdict::Ready(1));
        assert_eq!(judge(Some(100), 1, 114), Verdict::Ready(1));
        assert_eq!(judge(Some(100), 1, 115), Verdict::Silent);
        assert_eq!(judge(None, 60, 100), Verdict::Never);
        assert_eq!(judge(Some(i64::MAX), i64::MAX, 0), Verdict::Ready(i64::MAX));
    }

    proptest! {
        /// One that registers as it promised is never silent, though not every contact is written.
        #[test]
        fn whoever_keeps_its_word_is_ready(refresh in 1_i64..86_400, start in 0_i64..1_000_000) {
            let mut written = start;
            for beat in 1..50 {
                let now = start + beat * refresh;
                prop_assert!(matches!(judge(Some(written), refresh, now - 1), Verdict::Ready(_)));
                if precision_seconds(refresh) <= now - written {
                    written = now;
                }
                prop_assert!(now - written < silence_seconds(refresh));
            }
        }
    }
}

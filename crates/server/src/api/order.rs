//! The order of lists.
use orrery_api::Encoded;

/// Keys hold the ids of projects, so what comes from several projects is in the order of these; people
/// read names. Within a project the order stays as it is. One part of a list is brought in order, not
/// the whole: parts follow each other by their keys, which is what a token goes on from.
pub fn by_project(items: &mut [Encoded]) {
    let project = |item: &Encoded| item.project().map(str::to_owned).unwrap_or_default();
    if !items.is_sorted_by_key(&project) {
        items.sort_by_cached_key(project);
    }
}

//! From a range of sizes to one size.
use crate::{
    error::{Error, Result},
    volume::Size,
};
use orrery_proto::csi::v1::CapacityRange;

/// What one gets without asking.
const DEFAULT_BYTES: i64 = 1 << 30;
/// Less cannot hold a file system.
pub const MIN_BYTES: i64 = 1 << 20;
/// Sizes are rounded up to whole pages, which is also the block size of file systems.
const STEP_BYTES: i64 = 4096;

/// The bounds of a request; zero means none.
fn bounds(range: Option<&CapacityRange>) -> Result<(i64, i64)> {
    let (required, limit) = range.map_or((0, 0), |range| (range.required_bytes, range.limit_bytes));
    if required < 0 || limit < 0 {
        return Err(Error::Invalid("capacity_range has negative sizes".to_owned()));
    }
    if limit != 0 && required > limit {
        return Err(Error::Invalid(format!(
            "capacity_range requires {required} bytes but allows only {limit}"
        )));
    }
    Ok((required, limit))
}

/// The size of a new volume that has to hold at least `floor` bytes of its source.
pub fn of_new(range: Option<&CapacityRange>, floor: Option<Size>) -> Result<Size> {
    let (required, limit) = bounds(range)?;
    let floor = floor.map_or(0, Size::to_i64);
    let wanted = match (required, limit) {
        (0, 0) if floor > 0 => floor,
        (0, 0) => DEFAULT_BYTES,
        (0, limit) => DEFAULT_BYTES.min(limit).max(floor),
        (required, _) => required.max(floor),
    };
    let rounded = round_up(wanted.max(MIN_BYTES))?;
    // A limit between two steps can still be met: by the source itself or by whole sectors.
    let size = if limit != 0 && rounded > limit { wanted.max(floor) } else { rounded };
    if limit != 0 && size > limit || size < MIN_BYTES {
        return Err(Error::OutOfRange(format!(
            "no size between {} and {limit} bytes fits: at least {} are needed",
            required.max(floor),
            floor.max(MIN_BYTES)
        )));
    }
    Size::from_bytes(size).map_err(|_| {
        Error::OutOfRange(format!("{size} bytes are no multiple of 512 and {limit} is the limit"))
    })
}

/// Whether a volume that exists is one that a request could have made.
pub fn fits(range: Option<&CapacityRange>, size: Size) -> Result<bool> {
    let (required, limit) = bounds(range)?;
    let size = size.to_i64();
    Ok(size >= required && (limit == 0 || size <= limit))
}

/// The size to grow to; the present one if that is enough.
pub fn of_grown(range: &CapacityRange, present: Size) -> Result<Size> {
    let (required, limit) = bounds(Some(range))?;
    if required == 0 && limit == 0 {
        return Err(Error::Invalid("capacity_range is empty".to_owned()));
    }
    let wanted = Size::from_bytes(round_up(required.max(present.to_i64()))?)?.max(present);
    let size = if required <= present.to_i64() { present } else { wanted };
    if limit != 0 && size.to_i64() > limit {
        return Err(Error::OutOfRange(format!(
            "the volume would have {size}, which is more than the limit of {limit}"
        )));
    }
    Ok(size)
}

fn round_up(bytes: i64) -> Result<i64> {
    let rounded = bytes.checked_add(STEP_BYTES - 1).map(|bytes| bytes / STEP_BYTES * STEP_BYTES);
    rounded
        .ok_or_else(|| Error::OutOfRange(format!("{bytes} bytes are more than a device can have")))
}

#[cfg(test)]
mod tests {
    use super::{of_grown, of_new};
    use crate::volume::Size;
    use orrery_proto::csi::v1::CapacityRange;
    use proptest::prelude::*;
    use tonic::Code;

    const MIB: i64 = 1 << 20;

    fn range(required_bytes: i64, limit_bytes: i64) -> CapacityRange {
        CapacityRange { required_bytes, limit_bytes }
    }

    #[track_caller]
    fn new(required: i64, limit: i64, floor: i64, expect: Result<i64, Code>) {
        let floor = (floor > 0).then(|| Size::from_bytes(floor).unwrap());
        let found = of_new(Some(&range(required, limit)), floor);
        assert_eq!(found.map(Size::to_i64).map_err(|error| error.code()), expect);
    }

    #[test]
    fn sizes_of_new_volumes() {
        new(0, 0, 0, Ok(1 << 30));
        new(0, 0, 5 * MIB, Ok(5 * MIB));
        new(10 << 30, 0, 0, Ok(10 << 30));
        new(10 << 30, 10 << 30, 0, Ok(10 << 30));
        new(MIB + 1, 0, 0, Ok(MIB + 4096));
        new(1, 0, 0, Ok(MIB));
        new(0, 5 * MIB, 0, Ok(5 * MIB));
        new(MIB + 512, MIB + 512, 0, Ok(MIB + 512));
        new(MIB + 1, MIB + 1, 0, Err(Code::OutOfRange));
        new(2 * MIB, 2 * MIB, 5 * MIB, Err(Code::OutOfRange));
        new(2 * MIB, 0, 5 * MIB, Ok(5 * MIB));
        new(512, 512, 0, Err(Code::OutOfRange));
        new(-1, 0, 0, Err(Code::InvalidArgument));
        new(0, -1, 0, Err(Code::InvalidArgument));
        new(2, 1, 0, Err(Code::InvalidArgument));
        new(i64::MAX, 0, 0, Err(Code::OutOfRange));
    }

    #[track_caller]
    fn grown(required: i64, limit: i64, present: i64, expect: Result<i64, Code>) {
        let found = of_grown(&range(required, limit), Size::from_bytes(present).unwrap());
        assert_eq!(found.map(Size::to_i64).map_err(|error| error.code()), expect);
    }

    #[test]
    fn sizes_of_grown_volumes() {
        grown(2 * MIB, 0, MIB, Ok(2 * MIB));
        grown(2 * MIB + 1, 0, MIB, Ok(2 * MIB + 4096));
        grown(MIB, 0, 2 * MIB, Ok(2 * MIB));
        grown(0, 2 * MIB, MIB, Ok(MIB));
        grown(0, MIB, 2 * MIB, Err(Code::OutOfRange));
        grown(2 * MIB, 2 * MIB, MIB, Ok(2 * MIB));
        grown(0, 0, MIB, Err(Code::InvalidArgument));
    }

    proptest! {
        /// Whatever comes out is inside of what was asked for.
        #[test]
        fn a_size_keeps_its_bounds(required in 0..1i64 << 40, limit in 0..1i64 << 40, floor in 0..1i64 << 30) {
            let floor = Size::from_bytes(floor / 512 * 512).ok();
            if let Ok(size) = of_new(Some(&range(required, limit)), floor) {
                prop_assert!(size.to_i64() >= required);
                prop_assert!(limit == 0 || size.to_i64() <= limit);
                prop_assert!(floor.is_none_or(|floor| size >= floor));
            }
        }
    }
}

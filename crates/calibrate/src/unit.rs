//! The access unit of a medium, found where a sweep over strides has its knee.
//!
//! While values that are read share units with their neighbours, or follow in the next unit, twice the
//! distance moves twice the bytes for each value and so takes twice the time. Once they are further apart
//! than a unit, the units between are skipped, and the time of a value no longer depends on the distance. A
//! jump by far more than a factor of two does not come from bytes that are moved but from a prefetcher that
//! has lost the track, which it does only where it would have fetched units that nobody reads.

use halocline_media::{LINE, StrideFigures};

/// Growth of the time of a value, for twice the distance, that shows that twice the bytes are moved.
const DOUBLED_TIME: std::ops::Range<f64> = 1.6..2.4;
/// The largest unit to look for; the sweep continues beyond it.
const MAX_UNIT: u64 = 4096;
/// Doublings beyond the unit over which the time must not grow with the distance.
const DOUBLINGS_BEYOND_UNIT: usize = 3;
/// Maximum factor by which the time may grow over these doublings.
const MAX_GROWTH_BEYOND_UNIT: f64 = 5.0;

/// Returns the access unit that the sweep, whose strides double, shows, or `None` if there is no knee.
pub(crate) fn access_unit(strides: &[StrideFigures]) -> Option<u64> {
    let line = strides.iter().position(|cost| cost.stride == LINE)?;
    let growth = |pair: &[StrideFigures]| pair[1].value_ns / pair[0].value_ns;
    let from_line = &strides[line..];
    let knee = from_line
        .windows(2)
        .position(|pair| !DOUBLED_TIME.contains(&growth(pair)))?;
    let unit = from_line[knee];
    let beyond = from_line.get(knee + DOUBLINGS_BEYOND_UNIT)?;
    (unit.stride <= MAX_UNIT && growth(&[unit, *beyond]) < MAX_GROWTH_BEYOND_UNIT).then_some(unit.stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(value_ns: impl Fn(f64) -> f64) -> Vec<StrideFigures> {
        let cost = |bits: u32| StrideFigures {
            stride: 1 << bits,
            value_ns: value_ns(f64::from(1 << bits)),
        };
        (2..=15).map(cost).collect()
    }

    #[test]
    fn the_knee_is_the_unit() {
        for unit in [64.0, 256.0, 4096.0] {
            let memory = |stride: f64| stride.min(unit) / 8.0;
            assert_eq!(access_unit(&sweep(memory)), Some(unit as u64));
            // The processor needs a nanosecond for every value, and a new page costs more.
            let slower = |stride: f64| memory(stride).max(1.0) + if stride >= 4096.0 { 10.0 } else { 0.0 };
            assert_eq!(access_unit(&sweep(slower)), Some(unit as u64));
            // A prefetcher helps up to the unit.
            let prefetched = |stride: f64| memory(stride) * if stride > unit { 3.0 } else { 1.0 };
            assert_eq!(access_unit(&sweep(prefetched)), Some(unit as u64));
        }
    }

    #[test]
    fn no_knee_is_no_unit() {
        assert_eq!(access_unit(&sweep(|stride| stride)), None);
        assert_eq!(access_unit(&sweep(|stride| stride.min(8192.0))), None);
        let outlier = |stride| if stride == 512.0 { 1.0 } else { stride };
        assert_eq!(access_unit(&sweep(outlier)), None);
        assert_eq!(access_unit(&[]), None);
    }
}

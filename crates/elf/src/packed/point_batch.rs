//! Slot indexes and record tails of points, computed for four points at a time.

use crate::geometry::RecordGeometry;
use crate::packed::shortcuts::{ShortcutForm, Shortcuts};

/// Coefficients of one dimension, which map its code to a part of the point's slot index and to bits of its
/// record tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldCoefficient {
    /// Factor in the slot index, below 2^32; 0 for dimensions that the shortcuts do not cover.
    pub(crate) stride: u64,
    /// Left shift in the tail; 64 or more for dimensions that are not part of it.
    pub(crate) shift: u64,
    /// Largest code: below 2^63.
    pub(crate) max: u64,
}

impl FieldCoefficient {
    /// Coefficients that add nothing.
    const NONE: Self = Self {
        stride: 0,
        shift: 64,
        max: i64::MAX as u64,
    };
}

/// The coefficients of four neighbouring dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldCoefficients {
    /// The first of these dimensions.
    pub(crate) from: usize,
    pub(crate) coefficients: [FieldCoefficient; 4],
}

/// Value in place of a tail if a code is too large, so that no row equals the point.
pub(crate) const NO_TAIL: u64 = u64::MAX;

/// Slot indexes (0 if a code is too large) and record tails of four points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PointBatch4 {
    pub(crate) places: [u64; 4],
    pub(crate) tails: [u64; 4],
}

impl FieldCoefficients {
    /// Returns the coefficients of all dimensions; `None` if there are fewer than four, or if the shortcuts
    /// do not lead to lists of one-byte values with records of up to 63 bits above the TID.
    pub(crate) fn all(geometry: &RecordGeometry, shortcuts: &Shortcuts) -> Option<Vec<Self>> {
        let (dims, depth) = (geometry.dims(), shortcuts.dims());
        let usual = dims >= 4
            && (1..dims).contains(&depth)
            && shortcuts.level.value_len == 1
            && shortcuts.level.tail_mask.is_some_and(|mask| mask < NO_TAIL);
        // In quartered form, tails also have the low bits of the list's own codes.
        let first = depth + usize::from(shortcuts.form != ShortcutForm::Quartered);
        let weight = |dim: usize| FieldCoefficient {
            stride: shortcuts.stride(dim),
            shift: if dim >= first {
                geometry.table.tail[dim]
            } else {
                64
            },
            max: geometry.max_codes[dim],
        };
        let four = |first: usize| {
            // The last four may overlap the ones before; each dimension must count once.
            let from = first.min(dims - 4);
            let coefficients = [0, 1, 2, 3].map(|k| match from + k {
                dim if dim < first => FieldCoefficient::NONE,
                dim => weight(dim),
            });
            Self { from, coefficients }
        };
        usual.then(|| (0..dims).step_by(4).map(four).collect())
    }
}

//! Ranges of keys from conditions on key columns.

use std::ops::Bound;

use arrow_array::{Array, ArrayRef};

use crate::error::Result;
use crate::key::after_prefix;
use crate::table::KeyedTable;

/// Most ranges into which lists of values are expanded.
const MAX_RANGES: usize = 4_096;

/// A condition on a key column. Arrays have the type of the column.
#[derive(Debug, Clone)]
pub enum KeyCondition {
    /// The value is one of those of an array; never if it is NULL.
    OneOf(ArrayRef),
    /// The value is between two bounds, each an array of one value.
    Range(Bound<ArrayRef>, Bound<ArrayRef>),
}

/// The lower and the upper bound of a range of encoded keys.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Sorted, disjoint ranges of encoded keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRanges {
    ranges: Vec<KeyBounds>,
    /// Number of leading key columns that the ranges restrict.
    columns: usize,
}

impl KeyRanges {
    pub(crate) fn for_conditions(table: &KeyedTable, conditions: &[(usize, KeyCondition)]) -> Result<Self> {
        let mut prefixes = vec![Vec::new()];
        let mut columns = 0;
        for &column in &table.definition.key {
            let of_column = || {
                conditions
                    .iter()
                    .filter(move |(at, _)| *at == column)
                    .map(|(_, condition)| condition)
            };
            let list = of_column().find_map(|condition| match condition {
                KeyCondition::OneOf(values) => Some(values),
                KeyCondition::Range(..) => None,
            });
            if let Some(values) = list
                && values.len().saturating_mul(prefixes.len()) <= MAX_RANGES
            {
                prefixes = expanded(table, column, &prefixes, values)?;
                columns += 1;
                continue;
            }
            let mut bounds = (Bound::Unbounded, Bound::Unbounded);
            for condition in of_column() {
                if let KeyCondition::Range(from, to) = condition
                    && !narrow(table, column, &mut bounds, from, to)?
                {
                    return Ok(Self {
                        ranges: Vec::new(),
                        columns: columns + 1,
                    });
                }
            }
            let restricted = !matches!(bounds, (Bound::Unbounded, Bound::Unbounded));
            let ranges = prefixes.iter().map(|prefix| within(prefix, &bounds));
            return Ok(Self {
                ranges: ranges.filter(|range| !is_empty(range)).collect(),
                columns: columns + usize::from(restricted),
            });
        }
        Ok(Self {
            columns,
            ..Self::keys(prefixes)
        })
    }

    /// Returns the ranges of single keys, given encoded, in ascending order.
    pub fn keys(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let point = |key: Vec<u8>| (Bound::Included(key.clone()), Bound::Included(key));
        Self {
            ranges: keys.into_iter().map(point).collect(),
            columns: 0,
        }
    }

    /// Returns the ranges.
    pub fn as_slice(&self) -> &[KeyBounds] {
        &self.ranges
    }

    pub(crate) fn into_vec(self) -> Vec<KeyBounds> {
        self.ranges
    }

    /// Returns the number of leading key columns that the ranges restrict.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns true if each range is a single key.
    pub fn are_keys(&self) -> bool {
        let is_key = |(from, to): &KeyBounds| match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from == to,
            _ => false,
        };
        self.ranges.iter().all(is_key)
    }
}

/// Appends each of some values to each prefix.
fn expanded(
    table: &KeyedTable,
    column: usize,
    prefixes: &[Vec<u8>],
    values: &ArrayRef,
) -> Result<Vec<Vec<u8>>> {
    let mut encoded = Vec::new();
    for row in 0..values.len() {
        encoded.extend(table.encode_value(column, values, row)?);
    }
    encoded.sort_unstable();
    encoded.dedup();
    let with = |prefix: &Vec<u8>| {
        let prefix = prefix.clone();
        encoded.iter().map(move |value| [&prefix[..], value].concat())
    };
    Ok(prefixes.iter().flat_map(with).collect())
}

/// Intersects bounds with those of a condition. Returns false if the condition is never true.
fn narrow(
    table: &KeyedTable,
    column: usize,
    bounds: &mut KeyBounds,
    from: &Bound<ArrayRef>,
    to: &Bound<ArrayRef>,
) -> Result<bool> {
    let encode = |bound: &Bound<ArrayRef>| -> Result<Option<Bound<Vec<u8>>>> {
        Ok(match bound {
            Bound::Unbounded => Some(Bound::Unbounded),
            Bound::Included(value) => table.encode_value(column, value, 0)?.map(Bound::Included),
            Bound::Excluded(value) => table.encode_value(column, value, 0)?.map(Bound::Excluded),
        })
    };
    let (Some(from), Some(to)) = (encode(from)?, encode(to)?) else {
        return Ok(false);
    };
    if let Bound::Included(value) | Bound::Excluded(value) = &from {
        let is_greater = match &bounds.0 {
            Bound::Unbounded => true,
            Bound::Included(old) => value > old || (value == old && matches!(from, Bound::Excluded(_))),
            Bound::Excluded(old) => value > old,
        };
        if is_greater {
            bounds.0 = from;
        }
    }
    if let Bound::Included(value) | Bound::Excluded(value) = &to {
        let is_less = match &bounds.1 {
            Bound::Unbounded => true,
            Bound::Included(old) => value < old || (value == old && matches!(to, Bound::Excluded(_))),
            Bound::Excluded(old) => value < old,
        };
        if is_less {
            bounds.1 = to;
        }
    }
    Ok(true)
}

/// Returns the range of the keys that begin with `prefix` and a value within `bounds`.
fn within(prefix: &[u8], bounds: &KeyBounds) -> KeyBounds {
    let with = |value: &Vec<u8>| [prefix, value].concat();
    let end = |key: Vec<u8>| after_prefix(key).map_or(Bound::Unbounded, Bound::Excluded);
    let from = match &bounds.0 {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        Bound::Included(value) => Bound::Included(with(value)),
        Bound::Excluded(value) => match after_prefix(with(value)) {
            Some(key) => Bound::Included(key),
            // Nothing is greater.
            None => return (Bound::Included(vec![0]), Bound::Excluded(vec![0])),
        },
    };
    let to = match &bounds.1 {
        Bound::Unbounded => end(prefix.to_vec()),
        Bound::Included(value) => end(with(value)),
        Bound::Excluded(value) => Bound::Excluded(with(value)),
    };
    (from, to)
}

fn is_empty(range: &KeyBounds) -> bool {
    matches!(range, (Bound::Included(from), Bound::Excluded(to)) if from >= to)
}

//! Aggregates, with one state per group in a dense array.
//!
//! Sums have 128 bits, which cannot overflow; the caller checks that a sum fits its type.

use super::measure::{Measure, MeasureValues};
use crate::{JoinError, JoinResult};

/// Most groups of a join. Each takes 16 bytes per aggregate, and as many for counts, on each thread.
pub const MOST_GROUPS: usize = 1 << 20;

/// An aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// The sum of its values.
    Sum,
    /// The number of values that are not NULL.
    Count,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A function of a measure. An average is a sum and a count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// The function.
    pub function: Function,
    /// Its argument.
    pub measure: Measure,
}

/// The aggregate states of all groups.
#[derive(Debug, Clone)]
pub struct GroupStates {
    functions: Vec<Function>,
    rows: Vec<u64>,
    states: Vec<AggregateState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct AggregateState {
    value: i128,
    /// Values that were not NULL.
    count: u64,
}

impl GroupStates {
    /// Creates empty states.
    ///
    /// # Errors
    /// [`JoinError::TooManyGroups`].
    pub(super) fn new(groups: u128, aggregates: &[Aggregate]) -> JoinResult<GroupStates> {
        if groups > MOST_GROUPS as u128 {
            return Err(JoinError::TooManyGroups {
                groups,
                most: MOST_GROUPS,
            });
        }
        let functions: Vec<Function> = aggregates.iter().map(|aggregate| aggregate.function).collect();
        Ok(GroupStates {
            rows: vec![0; groups as usize],
            states: vec![AggregateState::default(); groups as usize * functions.len()],
            functions,
        })
    }

    /// Returns the number of bytes of DRAM that `groups` groups occupy.
    pub(super) fn bytes_of(groups: u128, aggregates: &[Aggregate]) -> usize {
        groups as usize * (size_of::<u64>() + aggregates.len() * size_of::<AggregateState>())
    }

    /// Adds a row to each of these groups.
    #[inline]
    pub(super) fn add_rows(&mut self, groups: &[u32]) {
        if let [all] = &mut self.rows[..] {
            *all += groups.len() as u64;
            return;
        }
        for group in groups {
            self.rows[*group as usize] += 1;
        }
    }

    /// Adds the values of an aggregate.
    #[inline]
    pub(super) fn add(&mut self, aggregate: usize, groups: &[u32], values: &MeasureValues) {
        let (each, states) = (self.functions.len(), &mut self.states[..]);
        let valid = |row: usize| values.valid.get(row).is_none_or(|valid| *valid);
        let rows = groups.iter().zip(&values.values).enumerate();
        match self.functions[aggregate] {
            Function::Sum | Function::Count if self.rows.len() == 1 && values.valid.is_empty() => {
                let state = &mut states[aggregate];
                state.value += values.values.iter().map(|value| i128::from(*value)).sum::<i128>();
                state.count += values.values.len() as u64;
            }
            Function::Sum | Function::Count => {
                for (row, (group, value)) in rows {
                    let (valid, state) = (valid(row), &mut states[*group as usize * each + aggregate]);
                    state.value += i128::from(if valid { *value } else { 0 });
                    state.count += u64::from(valid);
                }
            }
            function => {
                for (row, (group, value)) in rows.filter(|(row, _)| valid(*row)) {
                    let _ = row;
                    let state = &mut states[*group as usize * each + aggregate];
                    state.merge(
                        function,
                        AggregateState {
                            value: i128::from(*value),
                            count: 1,
                        },
                    );
                }
            }
        }
    }

    /// Merges the states of another thread into these.
    pub(super) fn merge(&mut self, other: &GroupStates) {
        for (rows, more) in self.rows.iter_mut().zip(&other.rows) {
            *rows += more;
        }
        let each = self.functions.len();
        for (at, (state, more)) in self.states.iter_mut().zip(&other.states).enumerate() {
            state.merge(self.functions[at % each], *more);
        }
    }

    /// Returns the number of groups, including those without rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no group.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of rows of a group.
    pub fn rows(&self, group: usize) -> u64 {
        self.rows[group]
    }

    /// Returns the sum, minimum or maximum of an aggregate; `None` if all values were NULL. Undefined for a
    /// count.
    pub fn value(&self, group: usize, aggregate: usize) -> Option<i128> {
        let state = &self.states[group * self.functions.len() + aggregate];
        (state.count > 0).then_some(state.value)
    }

    /// Returns the number of values of an aggregate that were not NULL.
    pub fn count(&self, group: usize, aggregate: usize) -> u64 {
        self.states[group * self.functions.len() + aggregate].count
    }

    /// Returns the number of bytes of DRAM.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.states)
    }
}

impl AggregateState {
    fn merge(&mut self, function: Function, other: AggregateState) {
        if other.count > 0 {
            self.value = match function {
                _ if self.count == 0 => other.value,
                Function::Sum | Function::Count => self.value + other.value,
                Function::Min => self.value.min(other.value),
                Function::Max => self.value.max(other.value),
            };
            self.count += other.count;
        }
    }
}

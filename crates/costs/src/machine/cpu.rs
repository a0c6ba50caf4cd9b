//! Computation of joins: how often each step is done, and how many seconds it takes.

use std::ops::{AddAssign, Mul};

/// Bytes of the rows that costs are given for.
const USUAL_ROW: f64 = 16.0;

/// Share of the costs of a row that does not depend on its length.
const FIXED_SHARE: f64 = 0.5;

/// The names of the steps of a join, in the order of [`CpuCosts::steps`] and [`JoinWork::steps`].
pub const JOIN_STEPS: [&str; 8] = [
    "read",
    "partition",
    "fill",
    "probe",
    "pair",
    "gather",
    "spill",
    "select",
];

/// Seconds of one thread per row of a key and a payload of 8 bytes, without cache misses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuCosts {
    /// To decode a row from a source and hash its key.
    pub read: f64,
    /// To encode a row and put it into its partition.
    pub partition: f64,
    /// To put a build row into its bucket.
    pub fill: f64,
    /// To look up a probe row in a table that fits the cache.
    pub probe: f64,
    /// To return a pair.
    pub pair: f64,
    /// To find a build row of an array join and fetch a column of it.
    pub gather: f64,
    /// To encode and write a row of spill space, and to read it back.
    pub spill: f64,
    /// To leave out a row that is read, or to take it, in a pass that joins a part of the rows.
    pub select: f64,
}

impl Default for CpuCosts {
    /// Returns costs fitted to the times of `halocline bench joins --memory 16M --on dax,page-cache,emulated
    /// --theta 0` on two cores. Steps that mostly come together, such as `partition` and `fill`, are not
    /// told apart well. Another machine has others: the experiment prints those that fit its times.
    fn default() -> CpuCosts {
        CpuCosts {
            read: 4.0e-9,
            partition: 16.4e-9,
            fill: 102e-9,
            probe: 6.8e-9,
            pair: 22.6e-9,
            gather: 14e-9,
            spill: 9.9e-9,
            select: 3e-9,
        }
    }
}

impl CpuCosts {
    /// Returns the costs of the [steps](JOIN_STEPS).
    pub fn steps(&self) -> [f64; 8] {
        let Self {
            read,
            partition,
            fill,
            probe,
            pair,
            gather,
            spill,
            select,
        } = *self;
        [read, partition, fill, probe, pair, gather, spill, select]
    }

    /// Returns costs with these of the [steps](JOIN_STEPS).
    pub fn of_steps(steps: [f64; 8]) -> CpuCosts {
        let [read, partition, fill, probe, pair, gather, spill, select] = steps;
        CpuCosts {
            read,
            partition,
            fill,
            probe,
            pair,
            gather,
            spill,
            select,
        }
    }

    /// Returns the factor by which a row of some bytes costs more than one of 16 bytes.
    pub(crate) fn weight(bytes: f64) -> f64 {
        FIXED_SHARE + (1.0 - FIXED_SHARE) * bytes.max(0.0) / USUAL_ROW
    }
}

/// The number of rows of each step that [`CpuCosts`] has a cost for, where longer rows count more than once.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct JoinWork {
    /// Rows that are read.
    pub read: f64,
    /// Rows that are put into partitions.
    pub partition: f64,
    /// Rows that are put into buckets.
    pub fill: f64,
    /// Rows that are looked up.
    pub probe: f64,
    /// Pairs that are returned.
    pub pair: f64,
    /// Values that an array join fetches.
    pub gather: f64,
    /// Rows that are spilled.
    pub spill: f64,
    /// Rows that a pass over a part of the rows reads.
    pub select: f64,
}

impl JoinWork {
    /// Returns the seconds of one thread.
    pub fn seconds(&self, cpu: &CpuCosts) -> f64 {
        let steps = self.steps().into_iter().zip(cpu.steps());
        steps.map(|(rows, cost)| rows * cost).sum()
    }

    /// Returns the rows of the [steps](JOIN_STEPS).
    pub fn steps(&self) -> [f64; 8] {
        let mut work = *self;
        work.steps_mut().map(|rows| *rows)
    }

    fn steps_mut(&mut self) -> [&mut f64; 8] {
        let Self {
            read,
            partition,
            fill,
            probe,
            pair,
            gather,
            spill,
            select,
        } = self;
        [read, partition, fill, probe, pair, gather, spill, select]
    }
}

impl AddAssign for JoinWork {
    fn add_assign(&mut self, other: JoinWork) {
        for (rows, more) in self.steps_mut().into_iter().zip(other.steps()) {
            *rows += more;
        }
    }
}

impl Mul<f64> for JoinWork {
    type Output = JoinWork;

    fn mul(mut self, times: f64) -> JoinWork {
        for rows in self.steps_mut() {
            *rows *= times;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_weighed_by_costs_and_lengths() {
        let cpu = CpuCosts::default();
        let mut work = JoinWork {
            read: 2.0,
            ..JoinWork::default()
        };
        work += JoinWork {
            spill: 1.0,
            gather: 4.0,
            ..JoinWork::default()
        } * 3.0;
        let seconds = 2.0 * cpu.read + 3.0 * cpu.spill + 12.0 * cpu.gather;
        assert!((work.seconds(&cpu) - seconds).abs() < 1e-15);
        assert_eq!((CpuCosts::weight(16.0), CpuCosts::weight(48.0)), (1.0, 2.0));
    }
}

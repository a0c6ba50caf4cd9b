//! The cells of the grid.

use std::fmt;

use crate::{Settings, config, report::Config};

/// Bytes of a row: key and payload.
pub(super) const ROW_BYTES: u64 = 16;

/// Memory limit of a measurement, and of a smoke test.
const MEMORY: u64 = 64 << 20;
const QUICK_MEMORY: u64 = 128 << 10;

/// Sizes of the build side, in halves of the memory limit: the least one fits with its hash table.
const HALVES_OF_MEMORY: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// Size of the probe side as a multiple of the memory limit.
const PROBE_MULTIPLE: u64 = 16;

/// Distance between shuffled keys: more than an array join accepts.
const GAP: u64 = 16;

/// A prime (Knuth's multiplicative hash), so that multiples of it visit all numbers below a smaller one.
const SHUFFLE: u64 = 2_654_435_761;

/// The keys of the build side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOrder {
    /// 0, 1, 2, …: an array join is possible.
    Dense,
    /// Multiples of 16 in a shuffled order: it is not.
    Shuffled,
}

impl KeyOrder {
    const ALL: [KeyOrder; 2] = [KeyOrder::Shuffled, KeyOrder::Dense];
}

impl fmt::Display for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            KeyOrder::Dense => "dense",
            KeyOrder::Shuffled => "shuffled",
        })
    }
}

/// The inputs of a join and its memory limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GridCell {
    /// Bytes.
    pub(super) memory: u64,
    pub(super) build_rows: u64,
    pub(super) probe_rows: u64,
    pub(super) keys: KeyOrder,
    /// Skew of the keys of the probe side; 0 is uniform.
    pub(super) theta: f64,
}

impl GridCell {
    /// Returns all cells: by keys and skew, then by size of the build side.
    pub(super) fn all(settings: &Settings) -> Vec<GridCell> {
        let default = if settings.quick { QUICK_MEMORY } else { MEMORY };
        let memory = settings.memory.unwrap_or(default).max(ROW_BYTES * 2);
        let probe_rows = settings
            .rows
            .map_or(memory * PROBE_MULTIPLE / ROW_BYTES, |rows| rows as u64);
        let thetas = match &*settings.tiers.thetas {
            [] => &[0.0, 0.9],
            thetas => thetas,
        };
        let mut cells = Vec::new();
        for keys in KeyOrder::ALL {
            for &theta in thetas {
                for halves in HALVES_OF_MEMORY {
                    cells.push(GridCell {
                        memory,
                        build_rows: memory * halves / 2 / ROW_BYTES,
                        probe_rows,
                        keys,
                        theta,
                    });
                }
            }
        }
        cells
    }

    /// Returns the size of the build side divided by the memory limit.
    pub(super) fn build_over_memory(&self) -> f64 {
        (self.build_rows * ROW_BYTES) as f64 / self.memory as f64
    }

    /// Returns the number of a key among those of the build side, for a row or for a rank of popularity.
    pub(super) fn shuffled(&self, number: u64) -> u64 {
        (u128::from(number) * u128::from(SHUFFLE) % u128::from(self.build_rows)) as u64
    }

    /// Returns the number of the key of a build row.
    pub(super) fn build_key(&self, row: u64) -> u64 {
        match self.keys {
            KeyOrder::Dense => row,
            KeyOrder::Shuffled => self.shuffled(row),
        }
    }

    /// Returns the value of a key.
    pub(super) fn key_value(&self, key: u64) -> i64 {
        match self.keys {
            KeyOrder::Dense => key as i64,
            KeyOrder::Shuffled => (key * GAP) as i64,
        }
    }

    /// Returns all that is needed to make the inputs again, but for the seed.
    pub(super) fn config(&self) -> Config {
        config! {
            "memory": self.memory,
            "build_rows": self.build_rows,
            "rows": self.probe_rows,
            "keys": self.keys.to_string(),
            "theta": self.theta,
            "build_over_memory": self.build_over_memory(),
        }
    }
}

impl fmt::Display for GridCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, theta, times) = (self.keys, self.theta, self.build_over_memory());
        write!(f, "T = {times} M, keys {keys}, theta {theta}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_there_once() {
        let settings = Settings {
            memory: Some(1 << 12),
            ..Settings::default()
        };
        let cells = GridCell::all(&settings);
        assert_eq!(cells.len(), 24);
        assert_eq!((cells[0].build_rows, cells[5].build_rows), (128, 4096));
        assert!(cells.iter().all(|cell| cell.probe_rows == 4096));
        for cell in cells {
            let mut keys: Vec<u64> = (0..cell.build_rows).map(|row| cell.build_key(row)).collect();
            assert_eq!(keys.is_sorted(), cell.keys == KeyOrder::Dense);
            keys.sort_unstable();
            assert!(keys.into_iter().eq(0..cell.build_rows), "{cell}");
        }
    }
}

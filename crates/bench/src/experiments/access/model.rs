//! Predictions of the time of hash probes from bandwidths and probe costs.
//!
//! The study's model counts the bytes that move: `8 |P| / B_p + (1 - π) |P| C / B_h`. It leaves out that a
//! core waits for misses, of which it has only a limited number outstanding, and computes: on DRAM, whose
//! bandwidth a random access does not reach, it predicts too little. The other model adds two times that are
//! measured with all threads at work, instead of deriving them from bandwidths: that of reading the probe
//! side alone, and that of the probes alone, with keys at hand. They include caches, TLBs, outstanding
//! misses, and what threads take from each other.

/// Bytes of a probe tuple: two columns of 4 bytes.
const TUPLE: f64 = 8.0;

/// The study's model, with the measured figures of a medium.
#[derive(Debug, Clone)]
pub(super) struct PublishedModel {
    /// Read bandwidth of all threads, in bytes per second.
    pub(super) bandwidth: f64,
    /// Bytes that a probe which misses the cache moves.
    pub(super) unit: f64,
    /// Bytes of the last-level cache.
    pub(super) cache_bytes: f64,
}

impl PublishedModel {
    /// Returns the predicted seconds for `rows` probes of a table of that size, probe side and table on this
    /// medium.
    pub(super) fn runtime(&self, rows: f64, table_bytes: f64) -> f64 {
        let hit = (self.cache_bytes / table_bytes).min(1.0);
        rows * (TUPLE + (1.0 - hit) * self.unit) / self.bandwidth
    }
}

/// Returns the difference of a prediction from the measurement, in percent of the measurement.
pub(super) fn error_percent(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_model_counts_bytes() {
        let model = PublishedModel {
            bandwidth: 32e9,
            unit: 256.0,
            cache_bytes: 32e6,
        };
        // A table in the cache: the probe side alone.
        assert_eq!(model.runtime(4e9, 1e6), 1.0);
        // A table of twice the cache: half of the probes miss.
        assert_eq!(model.runtime(4e9, 64e6), 17.0);
        assert!((error_percent(1.1, 1.0) - 10.0).abs() < 1e-9);
    }
}

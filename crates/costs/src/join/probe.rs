//! The order of the probes of a star join: those that discard most rows for their cost come first (rank-based
//! predicate ordering).

/// The estimated cost and selectivity of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeCost {
    /// The share of rows that pass, for uniform keys; `None` if it is unknown.
    pub share: Option<f64>,
    /// Bits per row of the columns of the fact table that it reads.
    pub bits: f64,
    /// The share of rows that must be looked up: one per run.
    pub looked_up: f64,
    /// Bytes of DRAM that an existence test may access.
    pub bytes: usize,
    /// True if keys are hashed.
    pub hashed: bool,
}

impl ProbeCost {
    /// Returns the cost of a probe that reads nothing yet, and looks up each row.
    pub fn new() -> Self {
        Self {
            share: None,
            bits: 0.0,
            looked_up: 1.0,
            bytes: 0,
            hashed: false,
        }
    }

    /// Adds a column of the fact table of this number of bits per row. `run_bits` are the bits of a run if it
    /// is looked up once per run.
    pub fn read(&mut self, bits: f64, run_bits: Option<f64>) {
        self.bits += bits;
        if let Some(run_bits) = run_bits {
            self.looked_up = (bits / run_bits.max(1.0)).min(1.0);
        }
    }

    /// Assumes a dimension of `rows` rows that is not loaded yet, where `span` is the number of keys between
    /// the smallest and the largest one of the fact table.
    pub fn assume_dimension(&mut self, rows: Option<usize>, span: Option<f64>) {
        self.share = rows.zip(span).map(|(rows, span)| (rows as f64 / span).min(1.0));
        self.bytes = span.map_or(usize::MAX, |span| (span / 8.0) as usize);
    }

    /// Returns the order of probes with these costs.
    pub fn order(costs: &[ProbeCost]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..costs.len()).collect();
        // The sort is stable: probes of the same rank stay in the order of the query.
        order.sort_by(|a, b| costs[*b].rank().total_cmp(&costs[*a].rank()));
        order
    }

    /// Returns the share of work that the probe saves the later ones, divided by its cost in hundredths of a
    /// nanosecond per row: reading the bits of its columns, looking up keys, and cache misses where the bytes
    /// exceed the caches of a core. One of few remaining rows costs about four times as much as one of many,
    /// so a probe that passes a fifth saves little.
    fn rank(&self) -> f64 {
        let waits = match self.bytes {
            ..0x4000 => 0.0,
            0x4000..0x4_0000 => 10.0,
            0x4_0000..0x40_0000 => 60.0,
            _ => 400.0,
        };
        let hashed = if self.hashed { 300.0 } else { 0.0 };
        let share = self.share.unwrap_or(1.0);
        let left = (4.0 * share).min(0.9 + 0.1 * share);
        (1.0 - left) / (self.bits + (50.0 + waits + hashed) * self.looked_up)
    }
}

impl Default for ProbeCost {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(rows: usize, span: f64, run_bits: Option<f64>) -> ProbeCost {
        let mut probe = ProbeCost::new();
        probe.read(12.0, run_bits);
        probe.assume_dimension(Some(rows), Some(span));
        probe
    }

    #[test]
    fn selective_and_cheap_probes_come_first() {
        let (selective, other) = (probe(10, 1000.0, None), probe(900, 1000.0, None));
        assert_eq!((selective.share, selective.bytes), (Some(0.01), 125));
        assert_eq!(ProbeCost::order(&[other, selective]), [1, 0]);
        let runs = probe(10, 1000.0, Some(48.0));
        assert_eq!(runs.looked_up, 0.25);
        assert_eq!(ProbeCost::order(&[selective, runs]), [1, 0]);
        // Probes of the same rank stay in their order; one of an unknown share saves nothing.
        let unknown = ProbeCost::new();
        assert_eq!(ProbeCost::order(&[unknown, other, other]), [1, 2, 0]);
        assert_eq!(probe(10, 1e9, None).bytes, 125_000_000);
    }
}

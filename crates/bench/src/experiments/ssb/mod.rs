//! `ssb`: the Star Schema Benchmark (O'Neil et al.), its 13 queries as SQL through a session, planning
//! included and the result fetched, on media, encodings and orders side by side (figure 4 of Shanbhag et al.,
//! DaMoN 2020).
//!
//! Every list of the settings is crossed with the others; what comes of it are the *variants*, which are
//! asked each query in turn, after one run each to warm up and to compare the answers. Tables are generated
//! and imported once for each scale factor, encoding and order; with `--dir` they stay there, and a later run
//! imports nothing.

mod data;
mod dram;
mod measure;
mod present;
mod system;
mod variant;

use crate::{BenchError, Reporter, Settings};

use data::Data;
use measure::Measured;
use system::Places;
use variant::Variant;

/// Rounds unless told otherwise.
const ROUNDS: usize = 5;

/// All that one run gave.
struct Results {
    variants: Vec<Variant>,
    /// By query, then by variant.
    measured: Vec<Measured>,
    stored: Vec<data::Sizes>,
    /// Of each that is stored at the largest scale factor.
    dram: Vec<dram::Peak>,
}

impl Results {
    /// The geometric mean of a variant's median milliseconds.
    fn mean(&self, variant: usize) -> f64 {
        let medians = self.measured.iter().map(|query| query.times[variant].median());
        crate::timing::geometric_mean(&medians.collect::<Vec<_>>())
    }
}

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    let variants = variant::all(settings);
    let data = Data::new(settings)?;
    let mut stored: Vec<data::Sizes> = vec![];
    for variant in &variants {
        if !stored.iter().any(|sizes| sizes.stored == variant.stored) {
            stored.push(data.prepare(&variant.stored, settings, report)?);
        }
    }
    let mut places = Places::default();
    let mut systems = vec![];
    for variant in &variants {
        systems.push(places.system(variant, &data, settings, report)?);
    }
    let measured = measure::all(&systems, settings.repetitions(ROUNDS))?;
    let dram = dram::peaks(&stored, settings, report)?;
    let results = Results {
        variants,
        measured,
        stored,
        dram,
    };
    present::values(report, &systems, &results)?;
    present::tables(report, &results)?;
    present::figure(report, settings, &systems, &results)
}

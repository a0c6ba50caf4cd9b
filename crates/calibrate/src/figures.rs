//! The figures of a medium, made of what was measured: [`MeasuredMedium`].

use halocline_media::{AccessFigures, Rate};

use crate::threads::peak_of;

/// The measurements that are made of memory and of devices alike.
pub(crate) struct MeasuredMedium {
    pub(crate) sequential_read_ns: f64,
    pub(crate) random_read_ns: f64,
    pub(crate) read: Vec<Rate>,
    pub(crate) write: Vec<Rate>,
    pub(crate) persist_ns: f64,
}

impl MeasuredMedium {
    /// Returns the figures of a medium whose access unit is known, without strides and hash probes.
    pub(crate) fn figures(self, unit: u64) -> AccessFigures {
        let (peak_read, _) = peak_of(&self.read);
        let (peak_write, writers) = peak_of(&self.write);
        AccessFigures {
            sequential_read_ns: self.sequential_read_ns,
            random_read_ns: self.random_read_ns,
            read: self.read,
            write: self.write,
            peak_read,
            peak_write,
            writers,
            unit,
            unit_measured: false,
            persist_ns: self.persist_ns,
            strides: Vec::new(),
            probes: Vec::new(),
        }
    }
}

/// Rounds what no measurement resolves: times to hundredths of a nanosecond, bandwidths to whole bytes.
pub(crate) fn rounded(mut figures: AccessFigures) -> AccessFigures {
    let time = |ns: &mut f64| *ns = ((*ns * 100.0).round() / 100.0).max(0.01);
    let rate = |bytes: &mut f64| *bytes = bytes.round().max(1.0);
    let times = [
        &mut figures.sequential_read_ns,
        &mut figures.random_read_ns,
        &mut figures.persist_ns,
    ];
    times.into_iter().for_each(time);
    figures
        .strides
        .iter_mut()
        .for_each(|cost| time(&mut cost.value_ns));
    for cost in &mut figures.probes {
        time(&mut cost.batched_ns);
        time(&mut cost.dependent_ns);
    }
    let rates = figures.read.iter_mut().chain(&mut figures.write);
    rates.for_each(|each| rate(&mut each.bytes_per_second));
    rate(&mut figures.peak_read);
    rate(&mut figures.peak_write);
    figures
}

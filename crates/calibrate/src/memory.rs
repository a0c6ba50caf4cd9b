//! Measurement of memory, anonymous or mapped: [`measure_memory`].

use halocline_media::{AccessFigures, Medium};

use crate::kernels::{self, ProbeTable, SEQUENTIAL, SHUFFLED};
use crate::steps::Steps;
use crate::threads::{peak_of, rates};
use crate::{CalibrateError, MediumMeter, unit};

/// Size of the smallest table that is probed, in bytes.
const MIN_TABLE_BYTES: u64 = 32 << 10;

/// Steps of [`measure_memory`].
pub(crate) const STEPS_OF_MEMORY: usize = 7;

/// Measures memory that is `bytes` long and may be overwritten.
pub(crate) fn measure_memory(
    medium: &Medium,
    bytes: u64,
    counts: &[u32],
    meter: &MediumMeter<'_>,
    (name, known_unit): (&str, u64),
    steps: &mut Steps<'_>,
) -> Result<AccessFigures, CalibrateError> {
    let mut step = |what: &str| steps.next(&format!("{name}: {what}"));
    step("preparation")?;
    kernels::link_unless(medium, bytes, meter.cancelled);
    // Nobody follows an unfinished chain: a cancelled calibration ends here.
    step("latency")?;
    let sequential_read_ns = meter.dependent_read(medium, SEQUENTIAL);
    let random_read_ns = meter.dependent_read(medium, SHUFFLED);
    step("strides")?;
    let strides = meter.strides(medium, bytes);
    step("read bandwidth")?;
    let read = rates(counts, |threads| Ok(meter.read_bandwidth(medium, bytes, threads)))?;
    step("write bandwidth")?;
    let write = rates(counts, |threads| meter.write_bandwidth(medium, bytes, threads))?;
    step("persist")?;
    let persist_ns = meter.persist(medium, bytes)?;
    step("hash probes")?;
    let mut probes = Vec::new();
    let mut size = MIN_TABLE_BYTES;
    while size <= bytes {
        let table = ProbeTable::build_unless(medium, size, meter.cancelled);
        steps.check()?;
        probes.push(meter.probes(&table));
        size *= 2;
    }
    let (peak_read, _) = peak_of(&read);
    let (peak_write, writers) = peak_of(&write);
    let unit = unit::access_unit(&strides);
    Ok(AccessFigures {
        sequential_read_ns,
        random_read_ns,
        read,
        write,
        peak_read,
        peak_write,
        writers,
        unit: unit.unwrap_or(known_unit),
        unit_measured: unit.is_some(),
        persist_ns,
        strides,
        probes,
    })
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

//! Measurement of memory, anonymous or mapped: [`measure_memory`].

use halocline_media::{AccessFigures, Medium};

use crate::figures::MeasuredMedium;
use crate::kernels::{self, ProbeTable, SEQUENTIAL, SHUFFLED};
use crate::steps::Steps;
use crate::threads::rates;
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
    let measured = MeasuredMedium {
        sequential_read_ns,
        random_read_ns,
        read,
        write,
        persist_ns,
    };
    let unit = unit::access_unit(&strides);
    Ok(AccessFigures {
        unit_measured: unit.is_some(),
        strides,
        probes,
        ..measured.figures(unit.unwrap_or(known_unit))
    })
}

//! `ingest`: how fast rows come in, durable when they are counted.
//!
//! *Import*: TPC-H lineitem, all 16 columns, from Parquet, without and with an Elf over four of them, each
//! followed by a sync. *Rows*: a few rows at a time, by the Rust API and by SQL text, one by one and several
//! in a call, by one thread and by several at once (group commit), on the page cache (default: survives the
//! process), in strict mode (survives power loss), and on a file taken for persistent memory, in `/dev/shm`
//! where there is one.

mod import;
mod rows;

use halocline_emulator::Device;

use crate::medium::announce;
use crate::{BenchError, Reporter, Settings, TableView};

pub(super) const VIEWS: &[TableView] = &[
    TableView {
        title: "import of lineitem, to the end of the sync",
        metrics: &["rate"],
        split: &["medium", "scale_factor"],
        rows: &["system"],
        columns: "metric",
        base: None,
    },
    TableView {
        title: "rows a second, each call durable when it returns",
        metrics: &["insert_rate"],
        split: &["rows_per_call", "threads"],
        rows: &["durability", "medium"],
        columns: "system",
        base: None,
    },
];

pub(super) fn run(settings: &Settings, report: &mut Reporter<'_>) -> Result<(), BenchError> {
    report.set("seed", settings.seed);
    let device = settings.pool_medium()?.as_ref().map(Device::new).transpose()?;
    announce(device.as_ref(), report)?;
    import::run(settings, report)?;
    rows::run(settings, report)
}

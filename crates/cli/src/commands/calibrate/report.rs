//! The tables of a calibration: the access patterns of DRAM beside those of the medium.

use std::io::Write;

use comfy_table::{Cell, CellAlignment, Table};
use halocline_emulator::Resemblance;
use halocline_media::{AccessFigures, Profile};
use halocline_terminal::CliError;
use halocline_terminal::output::plain_table;
use halocline_terminal::size::{counted, display};

pub(super) fn print(profile: &Profile, out: &mut impl Write) -> Result<(), CliError> {
    writeln!(
        out,
        "medium: {}, over {}, up to {}",
        profile.medium_text(),
        display(profile.bytes),
        counted(profile.cpus.into(), "thread")
    )?;
    writeln!(out, "{}", access_patterns(profile))?;
    writeln!(out, "hash probe, by size of the table, which is half full (ns)")?;
    writeln!(out, "{}", probes(profile))?;
    writeln!(
        out,
        "every j-th 4-byte value, by the distance between values read (ns per value)"
    )?;
    writeln!(out, "{}", strides(profile))?;
    resemblances(profile, out)?;
    if profile.bytes < 2 * profile.cache_bytes {
        writeln!(
            out,
            "note: {} is not much more than the last-level cache ({}), whose effect the figures include; --size \
             takes more",
            display(profile.bytes),
            display(profile.cache_bytes)
        )?;
    }
    Ok(())
}

/// Returns the kinds of memory of a profile, each with its heading.
fn columns(profile: &Profile) -> Vec<(&'static str, &AccessFigures)> {
    let mut columns = vec![("DRAM", &profile.dram)];
    match &profile.cold {
        None => columns.push(("medium", &profile.warm)),
        Some(cold) => columns.extend([("medium, in the page cache", &profile.warm), ("its device", cold)]),
    }
    columns
}

/// Returns the table of the published study, extended by the rows that a cost model needs.
fn access_patterns(profile: &Profile) -> Table {
    let columns = columns(profile);
    let mut table = plain_table(columns.len() + 1);
    table.set_header(std::iter::once("").chain(columns.iter().map(|(heading, _)| *heading)));
    let mut row = |name: String, cell: &dyn Fn(&AccessFigures) -> String| {
        let cells = columns.iter().map(|(_, figures)| right(cell(figures)));
        table.add_row(std::iter::once(Cell::new(name)).chain(cells));
    };
    let threads: Vec<u32> = profile.dram.read.iter().map(|rate| rate.threads).collect();
    for threads in &threads {
        let name = format!("sequential read, {}", counted((*threads).into(), "thread"));
        row(name, &|figures| rate(figures.read_bandwidth(*threads)));
    }
    row("sequential read, peak".to_owned(), &|figures| {
        rate(figures.peak_read)
    });
    for threads in &threads {
        let name = format!("sequential write, {}", counted((*threads).into(), "thread"));
        row(name, &|figures| rate(figures.write_bandwidth(*threads)));
    }
    row("sequential write, peak".to_owned(), &|figures| {
        let threads = counted(figures.writers.into(), "thread");
        format!("{} at {threads}", rate(figures.peak_write))
    });
    row("λ = peak read / peak write".to_owned(), &|figures| {
        format!("{:.1}", figures.lambda())
    });
    row("access unit".to_owned(), &|figures| {
        let known = if figures.unit_measured {
            ""
        } else {
            " (known, not measured)"
        };
        format!("{} B{known}", figures.unit)
    });
    row("sequential read latency".to_owned(), &|figures| {
        time(figures.sequential_read_ns)
    });
    row("random read latency".to_owned(), &|figures| {
        time(figures.random_read_ns)
    });
    row("store, flush and fence".to_owned(), &|figures| {
        time(figures.persist_ns)
    });
    table
}

fn probes(profile: &Profile) -> Table {
    let mut table = plain_table(5);
    table.set_header(["table", "DRAM", "DRAM, dependent", "medium", "medium, dependent"]);
    for (dram, medium) in profile.dram.probes.iter().zip(&profile.warm.probes) {
        let costs = [dram, medium].map(|cost| [cost.batched_ns, cost.dependent_ns]);
        let cells = costs.into_iter().flatten().map(|ns| right(format!("{ns:.1}")));
        table.add_row(std::iter::once(right(display(dram.bytes))).chain(cells));
    }
    table
}

fn strides(profile: &Profile) -> Table {
    let mut table = plain_table(3);
    table.set_header(["distance", "DRAM", "medium"]);
    for (dram, medium) in profile.dram.strides.iter().zip(&profile.warm.strides) {
        table.add_row([
            right(display(dram.stride)),
            right(format!("{:.2}", dram.value_ns)),
            right(format!("{:.2}", medium.value_ns)),
        ]);
    }
    table
}

fn resemblances(profile: &Profile, out: &mut impl Write) -> Result<(), CliError> {
    for (heading, figures) in columns(profile).into_iter().skip(1) {
        let Resemblance {
            profile: name,
            device,
            factor,
        } = Resemblance::find(figures, &profile.dram);
        writeln!(
            out,
            "{heading}: most like {device} (profile {name}) in proportion to DRAM; its figures differ by a factor of \
             {factor:.1}"
        )?;
    }
    Ok(())
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.2} GB/s", bytes_per_second / 1e9)
}

/// Formats nanoseconds as `85.2 ns`, `12.1 us` or `3.4 ms`.
fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.1} ns"),
        _ if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!(time(85.24), "85.2 ns");
        assert_eq!(time(12_100.0), "12.1 us");
        assert_eq!(time(3.4e6), "3.4 ms");
        assert_eq!(rate(8.7e9), "8.70 GB/s");
    }
}

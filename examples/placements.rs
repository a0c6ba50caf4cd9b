//! Placements: how much of an index is in DRAM, what that costs, and how to let the engine choose.
//!
//! The pool is on an emulated slow tier, so the advice is about that tier and not about this machine's disk.
//!
//! `cargo run --release -p halocline --example placements`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use halocline::{Database, DatabaseOptions, PlaceOptions};

const SELECTION: &str = "SELECT count(*) FROM parts WHERE size = 7 AND weight BETWEEN 10 AND 20";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("parts.pool");
    let db = Database::create(&path, &DatabaseOptions::default())?;
    db.sql(
        "CREATE TABLE parts AS
         SELECT h / 64 % 50 AS size, h / 4096 % 200 AS weight, h / 1048576 % 1000 AS shelf
         FROM (SELECT i * 2654435761 % 4294967296 AS h FROM generate_series(1, 500000) AS s(i))",
    )
    .await?;
    db.sql("CREATE INDEX by_size ON parts USING elf (size, weight, shelf)")
        .await?;
    let bytes = db.info()?.indexes[0].bytes;

    // An index may have a share of DRAM; `probable` lists are those most likely to be read.
    for placement in ["slow-only", "static", "static:1", "hybrid", "auto"] {
        let options = PlaceOptions::default()
            .with_placement(placement.parse()?)
            .with_dram((placement != "hybrid").then_some(bytes / 4));
        let index = db.place_index("by_size", &options)?;
        let used = index.dram_bytes.unwrap_or(0);
        println!("{placement}: {used} of {bytes} bytes in DRAM");
        db.sql(SELECTION).await?.collect().await?;
    }

    // What each placement would cost on Optane persistent memory, for these statements.
    let medium = "emulated:optane".parse()?;
    let advice = db
        .advise("by_size", &[SELECTION.to_owned()], bytes / 4, Some(&medium))
        .await?;
    println!(
        "on {}: {}; {}",
        advice.medium, advice.statement, advice.advice.reason
    );
    Ok(())
}

//! Measures small changes per second: `publish_rates FILE [strict|assume-dax]`.
//!
//! Appends records of 100 bytes to a log one by one, each in a transaction of its own, then publishes small
//! objects, and prints the rates. The file is created and left behind.
#![allow(clippy::print_stdout, reason = "tells what it has measured")]

use std::time::{Duration, Instant};

use halocline_pool::{ObjectKind, Pool, PoolError, PoolOptions};

/// Duration of each measurement.
const TIME: Duration = Duration::from_secs(2);

/// Calls `call` repeatedly for [`TIME`]; returns the calls per second.
fn rate(mut call: impl FnMut() -> Result<(), PoolError>) -> Result<f64, PoolError> {
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        call()?;
        calls += 1;
    }
    Ok(f64::from(calls) / start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a file to create")?;
    let mode = arguments.next().unwrap_or_default();
    let options = PoolOptions {
        strict: mode == "strict",
        assume_dax: mode == "assume-dax",
        ..PoolOptions::default()
    };
    let pool = Pool::create(path, &options)?;
    println!("{}", pool.kind());
    let fold = || -> Result<(), PoolError> {
        let txn = pool.begin()?;
        txn.put_log("log", 1 << 20)?;
        txn.commit().map(drop)
    };
    let append = || {
        let appended = pool.begin()?.log_append("log", &[7; 100]);
        match appended {
            Err(PoolError::LogFull { .. }) => fold(),
            other => other.map(drop),
        }
    };
    fold()?;
    println!("begin, append 100 bytes: {:.0}/s", rate(append)?);
    println!("begin, drop: {:.0}/s", rate(|| pool.begin().map(drop))?);
    fold()?;
    let publish = || {
        let txn = pool.begin()?;
        let mut writer = txn.alloc(1000)?;
        writer.append(&[7; 1000]);
        let extent = writer.finish(1000)?;
        txn.put("object", ObjectKind::TABLE, b"", vec![extent])?;
        txn.commit().map(drop)
    };
    println!("begin, put 1000 bytes, commit: {:.0}/s", rate(publish)?);
    let rename = || {
        let txn = pool.begin()?;
        txn.put("object", ObjectKind::TABLE, b"other", vec![])?;
        txn.commit().map(drop)
    };
    println!("begin, put without extents, commit: {:.0}/s", rate(rename)?);
    Ok(())
}

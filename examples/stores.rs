//! Key-value stores beside the tables of a database: batches, transactions, snapshots, scans, expiry,
//! counters.
//!
//! `cargo run --release -p halocline --example stores`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use halocline::store::{StoreError, WriteBatch};
use halocline::{Database, DatabaseOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.pool");
    let db = Database::create(&path, &DatabaseOptions::default())?;
    let stores = db.stores()?;
    let (stock, orders) = (stores.store("stock")?, stores.store("orders")?);

    // Several writes as one, over two stores.
    let mut batch = WriteBatch::new();
    batch.put(&stock, "apples", "5")?;
    batch.put(&stock, "pears", "1")?;
    batch.put(&orders, "0001", "ada: 2 apples")?;
    stores.write(batch)?;

    // Reads, a decision and writes as one. Whoever commits first wins; the other runs its transaction again.
    let buy = |order: &str, what: &str| -> Result<bool, StoreError> {
        loop {
            let mut transaction = stores.begin();
            let left = transaction.get(&stock, what)?.unwrap_or_default();
            let left: u32 = String::from_utf8_lossy(&left).parse().unwrap_or(0);
            if left == 0 {
                return Ok(false);
            }
            transaction.put(&stock, what, (left - 1).to_string())?;
            transaction.put(&orders, order, what)?;
            match transaction.commit() {
                Err(StoreError::Conflict { .. }) => continue,
                other => return other.map(|()| true),
            }
        }
    };
    println!(
        "first pear: {}, second: {}",
        buy("0002", "pears")?,
        buy("0003", "pears")?
    );

    // A snapshot does not see later writes.
    let snapshot = stores.snapshot();
    orders.delete_range("0001".."0002")?;
    println!(
        "{} orders now, {} before",
        orders.len(),
        snapshot.scan::<&str>(&orders, ..).count()
    );

    // The newest order first.
    if let Some(newest) = orders.scan::<&str>(..).next_back() {
        let (key, value) = newest?;
        println!(
            "newest: {} {}",
            String::from_utf8_lossy(&key),
            String::from_utf8_lossy(&value)
        );
    }

    // Keys that expire, and counters without reading.
    let sessions = stores.store("sessions")?;
    sessions.put_with_ttl("token", "ada", Duration::from_secs(3600))?;
    let visits = stores.store("visits")?.with_merge(|_, old, add| {
        let number = |bytes: &[u8]| String::from_utf8_lossy(bytes).parse::<u64>().unwrap_or(0);
        (number(old.unwrap_or_default()) + number(add))
            .to_string()
            .into_bytes()
    });
    (0..3).try_for_each(|_| visits.merge("home", "1"))?;
    println!(
        "visits: {}",
        String::from_utf8_lossy(&visits.get("home")?.unwrap_or_default())
    );
    Ok(())
}

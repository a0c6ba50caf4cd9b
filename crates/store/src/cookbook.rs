//! Examples of what stores are used for, one for each task.
//!
//! # Change several stores at once
//! After a crash all of a batch is there or nothing of it, and one wait makes it durable.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! use halocline_store::{Stores, WriteBatch};
//!
//! let stores = Stores::open(&pool)?;
//! let (orders, stock) = (stores.store("orders")?, stores.store("stock")?);
//! let mut batch = WriteBatch::new();
//! batch.put(&orders, "2026/0001", "3 lamps")?;
//! batch.put(&stock, "lamp", "39")?;
//! stores.write(batch)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Read, decide, write
//! A transaction that others have overtaken is run again. It is serialisable: this also holds for ranges that
//! it has scanned.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! use halocline_store::{Store, StoreError, Stores};
//!
//! fn reserve(stores: &Stores, seats: &Store, seat: &str, name: &str) -> Result<bool, StoreError> {
//!     loop {
//!         let mut transaction = stores.begin();
//!         if transaction.get(seats, seat)?.is_some() {
//!             return Ok(false);
//!         }
//!         transaction.put(seats, seat, name)?;
//!         match transaction.commit() {
//!             Err(StoreError::Conflict { .. }) => continue,
//!             done => return done.map(|()| true),
//!         }
//!     }
//! }
//!
//! let stores = Stores::open(&pool)?;
//! let seats = stores.store("seats")?;
//! assert!(reserve(&stores, &seats, "12A", "ada")?);
//! assert!(!reserve(&stores, &seats, "12A", "bob")?);
//! # Ok(())
//! # }
//! ```
//!
//! # Read one state for as long as it takes
//! Writers do not wait for a snapshot, and it does not wait for them.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let stores = Stores::open(&pool)?;
//! let prices = stores.store("prices")?;
//! prices.put("lamp", "20")?;
//! let snapshot = stores.snapshot();
//! prices.put("lamp", "25")?;
//! assert_eq!(snapshot.get(&prices, "lamp")?.as_deref(), Some(&b"20"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # The newest entries of a prefix
//! Scans run from either end. Numbers in keys are written so that they sort.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let events = Stores::open(&pool)?.store("events")?;
//! for second in 0..100_u64 {
//!     events.put([b"door/", &second.to_be_bytes()[..]].concat(), "opened")?;
//! }
//! let newest = events.scan_prefix("door/").rev().take(3).count();
//! assert_eq!(newest, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Count without reading first
//! A merge operator makes a value of the present one and an operand, as one step.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
//! let visits = Stores::open(&pool)?
//!     .store("visits")?
//!     .with_merge(move |_, old, operand| {
//!         let sum = number(old.unwrap_or_default()) + number(operand);
//!         sum.to_le_bytes().to_vec()
//!     });
//! for _ in 0..3 {
//!     visits.merge("page/1", 1_u64.to_le_bytes())?;
//! }
//! assert_eq!(number(&visits.get("page/1")?.unwrap_or_default()), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Set a value only if it is the expected one
//! `None` expects that the key is not there.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let locks = Stores::open(&pool)?.store("locks")?;
//! assert!(locks.compare_and_swap("job", None, Some(b"worker 1"))?);
//! assert!(!locks.compare_and_swap("job", None, Some(b"worker 2"))?);
//! # Ok(())
//! # }
//! ```
//!
//! # Let keys expire
//! Their space is used again without a rewrite of everything.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! use std::time::Duration;
//!
//! let sessions = Stores::open(&pool)?.store("sessions")?;
//! sessions.put_with_ttl("user/17", "logged in", Duration::from_secs(1800))?;
//! let pair = sessions.get_pair("user/17")?.expect("it has not expired");
//! assert!(pair.expires.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Remove all keys of a tenant
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let files = Stores::open(&pool)?.store("files")?;
//! files.put("acme/1", "a")?;
//! files.put("acme/2", "b")?;
//! files.put("other/1", "c")?;
//! files.delete_range("acme/".."acme0")?; // '0' follows '/'
//! assert_eq!(files.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Commit from many threads
//! Commits that wait at the same time share one flush of the medium; each is durable when it returns.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let log = Stores::open(&pool)?.store("log")?;
//! std::thread::scope(|scope| {
//!     for thread in 0..4_u8 {
//!         let log = &log;
//!         scope.spawn(move || (0..50_u8).try_for_each(|number| log.put([thread, number], "x")));
//!     }
//! });
//! assert_eq!(log.len(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # See what the file is full of
//! The log has space for records that are needed and for some that are not, which is used again. Snapshots
//! keep superseded versions; forgotten ones show here.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
//! # use halocline_store::Stores;
//! let stores = Stores::open(&pool)?;
//! let store = stores.store("s")?;
//! for _ in 0..100 {
//!     store.put("key", vec![0; 1000])?;
//! }
//! let stats = stores.stats();
//! println!(
//!     "{} bytes of log, {} needed, {} versions kept for {} snapshots",
//!     stats.log_bytes, stats.live_bytes, stats.kept_versions, stats.snapshots
//! );
//! # Ok(())
//! # }
//! ```

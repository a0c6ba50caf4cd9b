//! Commands on a store.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::Ordering;

use halocline_store::{Scan, StoreError, Stores};
use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::pools::patiently;
use halocline_terminal::size::{counted, grouped};

use crate::args::{Encoding, GetArgs, KvArgs, KvCommand, KvStatsArgs, PutArgs, ScanArgs};
use crate::opening;

use super::list::continue_unless;
use super::open_store::{OpenStore, refuse_names_of_sql};
use super::open_tree::object_name;
use super::pairs::PairPrinter;
use super::{answer, export, import, style};

pub(super) fn run(args: &KvArgs) -> Result<(), CliError> {
    match &args.command {
        KvCommand::Put(entry) => put(args, entry),
        KvCommand::Get(get) => self::get(args, get),
        KvCommand::Scan(scan) => self::scan(args, scan),
        KvCommand::Del { key } => del(args, key),
        KvCommand::Import(import) => import::store(args, import),
        KvCommand::Export(export) => export::store(args, export),
        KvCommand::Check { .. } => check(args),
        KvCommand::Stats(stats) => self::stats(args, stats),
        KvCommand::Drop => drop_store(args),
        KvCommand::Create { .. } | KvCommand::List { .. } | KvCommand::Bench(_) => Ok(()),
    }
}

pub(super) fn create(args: &KvArgs, name: &str) -> Result<(), CliError> {
    refuse_names_of_sql(name)?;
    let opened = opening::pool_or_create(args)?;
    let tree = object_name(&opened.pool, name)?;
    let snapshot = opened
        .pool
        .snapshot()
        .map_err(halocline_ordered::TreeError::from)?;
    let stores = patiently(|| Stores::open(&opened.pool))?;
    if snapshot.get(&tree).is_some() || stores.existing(name).is_ok() {
        return Err(CliError::with_hint(
            format!("{} has a tree or store {name} already", args.pool.display()),
            "`halocline kv POOL drop` removes what is there, --name makes one of another name",
        ));
    }
    match stores.store(name) {
        Ok(_) => {
            drop(stores);
            opened.pool.sync().map_err(StoreError::from)?;
        }
        Err(error) => {
            drop(stores);
            opened.discard_if_new();
            return Err(error.into());
        }
    }
    Ok(writeln!(
        io::stdout(),
        "store {name}: empty, in {}",
        args.pool.display()
    )?)
}

/// Returns the bytes of a key on the command line.
fn key_bytes(args: &KvArgs, text: &str) -> Result<Vec<u8>, CliError> {
    decoded(args.keys, text, "--keys")
}

fn decoded(encoding: Option<Encoding>, text: &str, option: &str) -> Result<Vec<u8>, CliError> {
    let bytes = encoding.unwrap_or(Encoding::Text).decode(text);
    bytes.map_err(|message| CliError::Usage {
        message,
        hint: format!("{option} says how it is written: text, hex or base64"),
    })
}

fn put(args: &KvArgs, entry: &PutArgs) -> Result<(), CliError> {
    let key = key_bytes(args, &entry.key)?;
    let value = match (&entry.value, &entry.file) {
        (Some(value), _) => decoded(args.values, value, "--values")?,
        (None, Some(file)) => read_value(file)?,
        (None, None) => vec![],
    };
    let open = OpenStore::to_write(args)?;
    match entry.ttl {
        Some(ttl) => open.store.put_with_ttl(&key, &value, ttl)?,
        None => open.store.put(&key, &value)?,
    }
    open.finish()?;
    let bytes = counted(value.len() as u64, "byte");
    match entry.ttl {
        Some(ttl) => {
            let ttl = humantime::format_duration(ttl);
            Ok(writeln!(io::stdout(), "{}: {bytes}, for {ttl}", entry.key)?)
        }
        None => Ok(writeln!(io::stdout(), "{}: {bytes}", entry.key)?),
    }
}

/// Reads a value, and no more of a file that is too long for one.
fn read_value(file: &Path) -> Result<Vec<u8>, CliError> {
    let open = || -> io::Result<Box<dyn Read>> {
        Ok(if file.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(fs::File::open(file)?)
        })
    };
    let mut value = Vec::new();
    let read = open().and_then(|source| {
        source
            .take(halocline_store::MAX_VALUE as u64 + 1)
            .read_to_end(&mut value)
    });
    match read {
        Ok(_) if value.len() > halocline_store::MAX_VALUE => Err(CliError::failed(format!(
            "{} has more than the {} bytes of the longest value",
            file.display(),
            grouped(halocline_store::MAX_VALUE as u64)
        ))),
        Ok(_) => Ok(value),
        Err(error) => Err(CliError::failed(format!(
            "{} cannot be read: {error}",
            file.display()
        ))),
    }
}

fn get(args: &KvArgs, get: &GetArgs) -> Result<(), CliError> {
    if get.raw && get.wanted.len() > 1 {
        return Err(CliError::Usage {
            message: "--raw writes one value".to_owned(),
            hint: "ask for one key, or use --output json".to_owned(),
        });
    }
    let keys: Vec<_> = get
        .wanted
        .iter()
        .map(|key| key_bytes(args, key))
        .collect::<Result<_, _>>()?;
    let open = OpenStore::to_read(args)?;
    let mut found = PairPrinter::new(args, style(get.output, 0));
    let mut missing = vec![];
    for (text, key) in get.wanted.iter().zip(keys) {
        match open.store.get_pair(&key)? {
            Some(pair) if get.raw => io::stdout().write_all(&pair.value)?,
            Some(pair) => found.push(pair)?,
            None => missing.push(text.clone()),
        }
    }
    if !get.raw {
        found.finish()?;
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(CliError::NoSuchKey(missing))
    }
}

fn scan(args: &KvArgs, scan: &ScanArgs) -> Result<(), CliError> {
    let bound = |key: &Option<String>| match key {
        Some(key) => key_bytes(args, key).map(Bound::Included),
        None => Ok(Bound::Unbounded),
    };
    let (from, to) = (bound(&scan.from)?, bound(&scan.to)?);
    let prefix = scan
        .prefix
        .as_deref()
        .map(|key| key_bytes(args, key))
        .transpose()?;
    let guard = Guard::new();
    let open = OpenStore::to_read(args)?;
    let range: Scan = match prefix {
        Some(prefix) => open.store.scan_prefix(prefix),
        None => open.store.scan::<Vec<u8>>((from, to)),
    };
    let limit = usize::try_from(scan.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let pairs: Box<dyn Iterator<Item = _>> = if scan.reverse {
        Box::new(range.with_expiry().rev().take(limit))
    } else {
        Box::new(range.with_expiry().take(limit))
    };
    let mut out = PairPrinter::new(args, style(scan.output, scan.max_rows));
    for pair in pairs {
        if guard.requested().load(Ordering::Relaxed) {
            return Err(CliError::Interrupted);
        }
        out.push(pair?)?;
    }
    out.finish()
}

fn del(args: &KvArgs, text: &str) -> Result<(), CliError> {
    let key = key_bytes(args, text)?;
    let open = OpenStore::to_write(args)?;
    let there = open.store.contains_key(&key)?;
    open.store.delete(&key)?;
    open.finish()?;
    if there {
        Ok(writeln!(io::stdout(), "{text}: removed")?)
    } else {
        Err(CliError::NoSuchKey(vec![text.to_owned()]))
    }
}

fn check(args: &KvArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let open = OpenStore::to_check(args)?;
    let report = open.stores.check(&mut |_| continue_unless(guard.requested()))?;
    if report.cancelled {
        return Err(CliError::Interrupted);
    }
    let mut out = io::stdout();
    for problem in &report.problems {
        writeln!(out, "damaged: {problem}")?;
    }
    let seen = format!(
        "{} in {} verified",
        counted(report.keys, "key"),
        counted(report.stores, "store")
    );
    if report.is_intact() {
        Ok(writeln!(out, "stores: no damage found; {seen}")?)
    } else {
        Err(CliError::with_hint(
            format!(
                "{} damaged; {seen}",
                counted(report.problems.len() as u64, "place")
            ),
            "`export` writes what can be read up to the damage; else restore the pool from a copy",
        ))
    }
}

fn stats(args: &KvArgs, stats: &KvStatsArgs) -> Result<(), CliError> {
    if stats.lookups.is_some() {
        return Err(CliError::Usage {
            message: format!("--lookups is for trees, and {} is a store", args.name),
            hint: "`halocline kv POOL stats` without it shows statistics of a store".to_owned(),
        });
    }
    let open = OpenStore::to_read(args)?;
    let all = open.stores.stats();
    answer::numbers(
        &[
            ("keys", open.store.len()),
            ("bytes", open.store.bytes()),
            ("all_stores", all.stores),
            ("all_keys", all.keys),
            ("all_bytes", all.bytes),
            ("pool_bytes", all.pool_bytes),
            ("log_bytes", all.log_bytes),
            ("live_log_bytes", all.live_bytes),
            ("pending_records", all.pending_records),
            ("newest_commit", all.commit),
        ],
        stats.output,
    )
}

fn drop_store(args: &KvArgs) -> Result<(), CliError> {
    let open = OpenStore::to_write(args)?;
    open.stores.drop_store(&args.name)?;
    open.finish()?;
    Ok(writeln!(io::stdout(), "store {} removed", args.name)?)
}

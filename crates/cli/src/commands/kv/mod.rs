//! `kv`: trees of a pool from a shell.
//!
//! Invariant: what a command has acknowledged by its exit code 0 survives power loss, as it syncs before it
//! ends.
//!
//! A tree that was not closed is opened for writing where that is possible, because that finishes what a
//! crash left half done.

mod answer;
mod entries;
mod load;
mod trees;

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use halocline_ordered::{
    OrderedIndex, Range, TreeError, create_tree, open_tree, open_tree_read_only, open_tree_unsynced,
};
use halocline_pool::{Pool, PoolError};

use crate::args::{KvArgs, KvCommand, OutputFormat, ScanArgs};
use crate::error::CliError;
use crate::opening;
use crate::output::Style;
use crate::size::counted;

use answer::EntryPrinter;

pub(super) use trees::{TreeInfo, check_all, list};

/// The prefix of the names of trees in the pool's directory.
const PREFIX: &str = "tree/";

/// How long another process is waited for that has the tree open or writes the pool.
const PATIENCE: Duration = Duration::from_secs(5);

type OpenTree = Box<dyn OrderedIndex>;

pub(crate) fn kv(args: &KvArgs) -> Result<(), CliError> {
    match &args.command {
        KvCommand::Create { called, tree } => {
            let name = called.as_ref().unwrap_or(&args.name);
            create(args, name, *tree)
        }
        KvCommand::Put { key, value } => put(args, *key, *value),
        KvCommand::Get { keys, output } => get(args, keys, *output),
        KvCommand::Scan(scan) => self::scan(args, scan),
        KvCommand::Del { key } => del(args, *key),
        KvCommand::Load(load) => load::load(args, load),
        KvCommand::Check { accept } => check(args, *accept),
        KvCommand::Stats { output } => {
            let (_, tree) = open_to_read(args)?;
            answer::stats(&tree.stats(), *output)
        }
        KvCommand::Drop => drop_tree(args),
    }
}

fn create(args: &KvArgs, name: &str, kind: halocline_ordered::TreeKind) -> Result<(), CliError> {
    let opened = opening::pool_or_create(args)?;
    let made = patiently(|| create_tree(&opened.pool, &format!("{PREFIX}{name}"), kind));
    match made {
        Ok(tree) => finish(&opened.pool, tree)?,
        Err(error) => {
            let exists = matches!(error, TreeError::Pool(PoolError::AlreadyThere { .. }));
            opened.discard_if_new();
            let hint = match exists {
                true => {
                    "`halocline kv POOL drop` removes the tree that is there, --name makes one of another name"
                }
                false => return Err(error.into()),
            };
            return Err(CliError::with_hint(error.to_string(), hint));
        }
    }
    Ok(writeln!(
        io::stdout(),
        "tree {name}: {kind}, empty, in {}",
        args.pool.display()
    )?)
}

fn put(args: &KvArgs, key: u64, value: u64) -> Result<(), CliError> {
    let (pool, tree) = open(args)?;
    let before = tree.upsert(key, value)?;
    finish(&pool, tree)?;
    match before {
        None => Ok(writeln!(io::stdout(), "{key}: {value}")?),
        Some(before) => Ok(writeln!(io::stdout(), "{key}: {value}, before {before}")?),
    }
}

fn get(args: &KvArgs, keys: &[u64], output: OutputFormat) -> Result<(), CliError> {
    let (_, tree) = open_to_read(args)?;
    let mut values = vec![None; keys.len()];
    tree.get_batch(keys, &mut values)?;
    let mut found = EntryPrinter::new(style(output, 0));
    let mut missing = vec![];
    for (key, value) in keys.iter().zip(values) {
        match value {
            Some(value) => found.push(*key, value)?,
            None => missing.push(key.to_string()),
        }
    }
    found.finish()?;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(CliError::NoSuchKey(missing)),
    }
}

fn scan(args: &KvArgs, scan: &ScanArgs) -> Result<(), CliError> {
    let (_, tree) = open_to_read(args)?;
    let range = Range::new(&*tree, scan.from..=scan.to);
    let limit = usize::try_from(scan.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let entries: Box<dyn Iterator<Item = _>> = match scan.reverse {
        false => Box::new(range.take(limit)),
        true => Box::new(range.rev().take(limit)),
    };
    let mut out = EntryPrinter::new(style(scan.output, scan.max_rows));
    for entry in entries {
        let (key, value) = entry?;
        out.push(key, value)?;
    }
    out.finish()
}

fn del(args: &KvArgs, key: u64) -> Result<(), CliError> {
    let (pool, tree) = open(args)?;
    let removed = tree.remove(key)?;
    finish(&pool, tree)?;
    match removed {
        Some(value) => Ok(writeln!(io::stdout(), "{key}: removed, was {value}")?),
        None => Err(CliError::NoSuchKey(vec![key.to_string()])),
    }
}

fn check(args: &KvArgs, accept: bool) -> Result<(), CliError> {
    let report = match accept {
        true => {
            let pool = opening::pool(args)?;
            let name = object_name(&pool, &args.name)?;
            let tree = patiently(|| open_tree_unsynced(&pool, &name));
            tree.map_err(|error| explain(error, &pool, args))?.check()?
        }
        false => open_to_read(args)?.1.check()?,
    };
    let mut out = io::stdout();
    for problem in &report.problems {
        writeln!(out, "damaged: {problem}")?;
    }
    let seen = format!(
        "{} in {} verified",
        counted(report.entries, "entry").replace("entrys", "entries"),
        counted(report.leaves, "node")
    );
    if report.is_intact() {
        return Ok(writeln!(out, "tree {}: no damage found; {seen}", args.name)?);
    }
    let count = counted(report.problems.len() as u64, "node");
    Err(CliError::with_hint(
        format!("tree {}: {count} damaged; {seen}", args.name),
        "what lies in other nodes can be read: load it into a new tree, or restore the pool from a copy",
    ))
}

fn drop_tree(args: &KvArgs) -> Result<(), CliError> {
    let pool = opening::pool(args)?;
    let name = object_name(&pool, &args.name)?;
    patiently(|| {
        let txn = pool.begin_wait(PATIENCE)?;
        txn.remove(&name)?;
        Ok(txn.commit()?)
    })?;
    pool.close().map_err(TreeError::from)?;
    Ok(writeln!(io::stdout(), "tree {} removed", args.name)?)
}

fn style(format: OutputFormat, max_rows: usize) -> Style {
    Style { format, max_rows }
}

/// Opens the tree that the command line names.
fn open(args: &KvArgs) -> Result<(Pool, OpenTree), CliError> {
    let pool = opening::pool(args)?;
    let name = object_name(&pool, &args.name)?;
    let tree = patiently(|| open_tree(&pool, &name)).map_err(|error| explain(error, &pool, args))?;
    Ok((pool, tree))
}

/// Opens the tree that the command line names to read it, beside other readers. One that was not closed is
/// opened for writing, if that is possible, so that what a crash has left half done is finished.
fn open_to_read(args: &KvArgs) -> Result<(Pool, OpenTree), CliError> {
    let pool = opening::pool_to_read(args)?;
    let name = object_name(&pool, &args.name)?;
    // If there is no such tree, opening it says so.
    if matches!(pool.slab_is_closed(&name), Ok(false))
        && let Ok(writable) = opening::pool(args)
    {
        let tree = patiently(|| open_tree(&writable, &name));
        return Ok((
            writable.clone(),
            tree.map_err(|error| explain(error, &writable, args))?,
        ));
    }
    let tree =
        patiently(|| open_tree_read_only(&pool, &name)).map_err(|error| explain(error, &pool, args))?;
    Ok((pool, tree))
}

/// Makes all that was written survive power loss, and closes the tree.
fn finish(pool: &Pool, tree: OpenTree) -> Result<(), CliError> {
    let synced = pool.sync();
    drop(tree);
    Ok(synced.map_err(TreeError::from)?)
}

/// The name that a tree has in the pool's directory: trees made by other programs may be named as they like.
fn object_name(pool: &Pool, name: &str) -> Result<String, CliError> {
    let snapshot = pool.snapshot().map_err(TreeError::from)?;
    let own = format!("{PREFIX}{name}");
    match snapshot.get(&own).is_none() && snapshot.get(name).is_some() {
        true => Ok(name.to_owned()),
        false => Ok(own),
    }
}

/// Tries again while another process has the tree or the pool.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, TreeError>) -> Result<T, TreeError> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(TreeError::Pool(PoolError::SlabInUse { .. } | PoolError::Locked { .. }))
                if start.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Returns a hint on what to type next where a tree does not open.
fn explain(error: TreeError, pool: &Pool, args: &KvArgs) -> CliError {
    let shown = args.pool.display();
    let name = match args.name.as_str() {
        "kv" => String::new(),
        name => format!(" --name {name}"),
    };
    match &error {
        TreeError::Pool(PoolError::NoSuchObject { .. }) => {
            let there = halocline_ordered::trees(pool).unwrap_or_default();
            let there: Vec<&str> = there.iter().map(|(name, _)| trees::short(name)).collect();
            let others = match there.is_empty() {
                true => String::new(),
                false => format!("; it has {}", there.join(", ")),
            };
            CliError::with_hint(
                format!("{shown} has no tree {}{others}", args.name),
                format!("`halocline kv {shown}{name} create` makes one"),
            )
        }
        TreeError::Pool(PoolError::SlabUnsynced { .. } | PoolError::DamagedSlab { .. }) => {
            CliError::with_hint(
                error.to_string(),
                format!("`halocline kv {shown}{name} check --accept` takes what is there, and verifies it"),
            )
        }
        _ => error.into(),
    }
}

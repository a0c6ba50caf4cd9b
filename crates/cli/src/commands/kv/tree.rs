//! Commands on a tree.

use std::io::{self, Write};

use halocline_ordered::{Range, TreeError, TreeKind, create_tree, open_tree_unsynced};
use halocline_pool::{PoolError, ReserveUse};
use halocline_terminal::CliError;
use halocline_terminal::pools::{PATIENCE, patiently};
use halocline_terminal::size::counted;

use crate::args::{GetArgs, KvArgs, KvCommand, PutArgs, ScanArgs};
use crate::opening;

use super::answer::{self, EntryPrinter};
use super::open_tree::{explain, finish, object_name, open, open_to_read};
use super::{PREFIX, export, hot, load, style};

pub(super) fn run(args: &KvArgs) -> Result<(), CliError> {
    refuse_store_options(args)?;
    match &args.command {
        KvCommand::Put(entry) => put(args, entry),
        KvCommand::Get(get) => self::get(args, get),
        KvCommand::Scan(scan) => self::scan(args, scan),
        KvCommand::Del { key } => del(args, number(key, "key")?),
        KvCommand::Import(import) => load::load(args, import),
        KvCommand::Export(export) => export::tree(args, export),
        KvCommand::Check { accept } => check(args, *accept),
        KvCommand::Stats(stats) => {
            let (_, tree) = open_to_read(args)?;
            match &stats.lookups {
                None => answer::stats(&tree.stats(), stats.output),
                Some(keys) => hot::stats(tree, keys, stats),
            }
        }
        KvCommand::Drop => drop_tree(args),
        KvCommand::Create { .. } | KvCommand::List { .. } | KvCommand::Bench(_) => Ok(()),
    }
}

/// Fails if an option was given that only stores have.
fn refuse_store_options(args: &KvArgs) -> Result<(), CliError> {
    let option = match &args.command {
        _ if args.keys.is_some() => "--keys",
        _ if args.values.is_some() => "--values",
        KvCommand::Put(PutArgs { file: Some(_), .. }) => "--file",
        KvCommand::Put(PutArgs { ttl: Some(_), .. }) => "--ttl",
        KvCommand::Get(GetArgs { raw: true, .. }) => "--raw",
        KvCommand::Scan(ScanArgs { prefix: Some(_), .. }) => "--prefix",
        _ => return Ok(()),
    };
    Err(CliError::Usage {
        message: format!("{option} is for stores, and {} is a tree of numbers", args.name),
        hint: "`halocline kv POOL --name NAME create --store` makes a store".to_owned(),
    })
}

fn number(text: &str, what: &str) -> Result<u64, CliError> {
    text.parse().map_err(|_| CliError::Usage {
        message: format!("`{text}` is no {what} of a tree"),
        hint: format!(
            "a tree has whole numbers from 0 to {}; a store has text",
            u64::MAX
        ),
    })
}

pub(super) fn create(args: &KvArgs, name: &str, kind: TreeKind) -> Result<(), CliError> {
    let opened = opening::pool_or_create(args)?;
    let made = patiently(|| create_tree(&opened.pool, &format!("{PREFIX}{name}"), kind));
    match made {
        Ok(tree) => finish(&opened.pool, tree)?,
        Err(error) => {
            let exists = matches!(error, TreeError::Pool(PoolError::AlreadyThere { .. }));
            opened.discard_if_new();
            let hint = if exists {
                "`halocline kv POOL drop` removes what is there, --name makes one of another name"
            } else {
                return Err(error.into());
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

fn put(args: &KvArgs, entry: &PutArgs) -> Result<(), CliError> {
    let key = number(&entry.key, "key")?;
    let value = number(entry.value.as_deref().unwrap_or_default(), "value")?;
    let (pool, tree) = open(args)?;
    let before = tree.upsert(key, value)?;
    finish(&pool, tree)?;
    match before {
        None => Ok(writeln!(io::stdout(), "{key}: {value}")?),
        Some(before) => Ok(writeln!(io::stdout(), "{key}: {value}, before {before}")?),
    }
}

fn get(args: &KvArgs, get: &GetArgs) -> Result<(), CliError> {
    let keys: Vec<_> = get
        .wanted
        .iter()
        .map(|key| number(key, "key"))
        .collect::<Result<_, _>>()?;
    let (_, tree) = open_to_read(args)?;
    let mut values = vec![None; keys.len()];
    tree.get_batch(&keys, &mut values)?;
    let mut found = EntryPrinter::new(style(get.output, 0));
    let mut missing = vec![];
    for (key, value) in keys.iter().zip(values) {
        match value {
            Some(value) => found.push(*key, value)?,
            None => missing.push(key.to_string()),
        }
    }
    found.finish()?;
    if missing.is_empty() {
        Ok(())
    } else {
        Err(CliError::NoSuchKey(missing))
    }
}

fn scan(args: &KvArgs, scan: &ScanArgs) -> Result<(), CliError> {
    let bound = |key: &Option<String>, open| key.as_ref().map_or(Ok(open), |key| number(key, "key"));
    let (from, to) = (bound(&scan.from, 0)?, bound(&scan.to, u64::MAX)?);
    let (_, tree) = open_to_read(args)?;
    let range = Range::new(&*tree, from..=to);
    let limit = usize::try_from(scan.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let entries: Box<dyn Iterator<Item = _>> = if scan.reverse {
        Box::new(range.rev().take(limit))
    } else {
        Box::new(range.take(limit))
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
    let report = if accept {
        let pool = opening::pool(args)?;
        let name = object_name(&pool, &args.name)?;
        let tree = patiently(|| open_tree_unsynced(&pool, &name));
        tree.map_err(|error| explain(error, &pool, args))?.check()?
    } else {
        open_to_read(args)?.1.check()?
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
        txn.use_reserve(ReserveUse::Dropping);
        txn.remove(&name)?;
        Ok::<_, TreeError>(txn.commit()?)
    })?;
    pool.close().map_err(TreeError::from)?;
    Ok(writeln!(io::stdout(), "tree {} removed", args.name)?)
}

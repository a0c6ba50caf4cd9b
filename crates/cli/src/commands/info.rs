//! `info`: what is in a pool.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use halocline_engine::{DatabaseInfo, DatabaseOptions, KeyedTableInfo, TableInfo};
use halocline_media::{Profile, ProfileError};
use halocline_terminal::CliError;
use halocline_terminal::output::plain_table;
use halocline_terminal::size::{counted, display, grouped};
use serde_json::{Value, json};

use super::kv::{self, StoreInfo, TreeInfo};
use crate::args::InfoArgs;
use crate::opening;

pub(crate) fn info(args: &InfoArgs) -> Result<(), CliError> {
    let options = DatabaseOptions::default().with_read_only(true);
    let info = opening::open(&args.pool, &options)?.info()?;
    let trees = kv::list(&args.pool)?;
    let stores = kv::stores(&args.pool)?;
    let profile = Profile::for_path(&args.pool);
    let mut out = BufWriter::new(io::stdout());
    if args.json {
        let mut all = serde_json::to_value(&info).map_err(|error| CliError::failed(error.to_string()))?;
        all["trees"] = trees.iter().map(tree_json).collect();
        match &stores {
            Ok(stores) => all["stores"] = stores.iter().map(store_json).collect(),
            Err(error) => all["stores_not_opened"] = error.to_string().into(),
        }
        match &profile {
            Ok(found) => {
                all["profile"] = found
                    .as_ref()
                    .map(|(file, profile)| json!({ "file": file.display().to_string(), "figures": profile }))
                    .into();
            }
            Err(error) => all["profile_not_read"] = error.to_string().into(),
        }
        writeln!(out, "{all}")?;
    } else {
        print(&info, &profile_text(&profile), &mut out)?;
        print_trees(&trees, &mut out)?;
        match &stores {
            Ok(stores) => print_stores(stores, &mut out)?,
            Err(error) => writeln!(out, "\nstores: not opened ({error})")?,
        }
        if info.tables.is_empty()
            && info.keyed_tables.is_empty()
            && trees.is_empty()
            && stores.is_ok_and(|stores| stores.is_empty())
        {
            writeln!(
                out,
                "\nno tables; `halocline import POOL TABLE FILE…` makes one, `halocline kv POOL create` a tree or store"
            )?;
        }
    }
    Ok(out.flush()?)
}

fn print(info: &DatabaseInfo, profile: &str, out: &mut impl Write) -> Result<(), CliError> {
    let pool = &info.pool;
    if let Some(path) = &pool.path {
        writeln!(out, "pool        {}", path.display())?;
    }
    writeln!(out, "medium      {}", pool.medium)?;
    writeln!(out, "profile     {profile}")?;
    writeln!(
        out,
        "size        {} ({} used, {} free), {} allocated in the file system",
        display(pool.bytes),
        display(pool.used_bytes),
        display(pool.free_bytes),
        display(pool.allocated_bytes)
    )?;
    writeln!(out, "log         {} of small changes", display(pool.log_bytes))?;
    writeln!(
        out,
        "generation  {} (survives power loss: {})",
        pool.generation, pool.synced_generation
    )?;
    writeln!(out, "format      {}, uuid {}", pool.format_version, pool.uuid)?;
    writeln!(
        out,
        "DRAM        {} for the open tables and indexes",
        display(info.dram_bytes)
    )?;
    let limit = info
        .dram_budget
        .map_or_else(|| "as many as asked for".to_owned(), display);
    writeln!(
        out,
        "            {} for copies of indexes, at most {limit}",
        display(info.placed_bytes)
    )?;
    for object in &info.damaged {
        writeln!(
            out,
            "\n{} {}: damaged: {}",
            object.kind, object.name, object.reason
        )?;
    }
    for damage in &info.damage {
        writeln!(out, "damage      {damage}")?;
    }
    for table in &info.tables {
        writeln!(
            out,
            "\ntable {}: {} rows, {}, {}",
            table.name,
            grouped(table.rows),
            display(table.bytes),
            state(table)
        )?;
        let mut columns = plain_table(5);
        columns.set_header(["column", "type", "null", "encoding", "in the pool"]);
        for column in &table.columns {
            columns.add_row([
                column.name.clone(),
                column.r#type.clone(),
                if column.nullable { "yes" } else { "no" }.to_owned(),
                column.encoding.clone(),
                display(column.bytes),
            ]);
        }
        writeln!(out, "{columns}")?;
    }
    for table in &info.keyed_tables {
        writeln!(
            out,
            "\ntable {} with a primary key: {}, {} of keys and rows",
            table.name,
            counted(table.rows, "row"),
            display(table.bytes)
        )?;
        write_keyed_columns(table, out)?;
    }
    for view in &info.views {
        writeln!(out, "\n{}", view.statement)?;
    }
    for index in &info.indexes {
        writeln!(
            out,
            "\nindex {} on {} ({}): {} layout, {} rows, {}",
            index.name,
            index.table,
            index.columns.join(", "),
            index.layout,
            grouped(index.rows),
            display(index.bytes)
        )?;
        writeln!(out, "placement   {}", index.placement_text())?;
    }
    Ok(())
}

/// Writes the columns of a table with a primary key, and its key.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_keyed_columns(table: &KeyedTableInfo, out: &mut impl Write) -> io::Result<()> {
    let mut columns = plain_table(3);
    columns.set_header(["column", "type", "null"]);
    for column in &table.columns {
        columns.add_row([
            column.name.clone(),
            column.r#type.clone(),
            if column.nullable { "yes" } else { "no" }.to_owned(),
        ]);
    }
    writeln!(out, "{columns}")?;
    writeln!(out, "primary key ({})", table.primary_key.join(", "))
}

/// Names the measured profile that holds for the pool.
fn profile_text(profile: &Result<Option<(PathBuf, Profile)>, ProfileError>) -> String {
    match profile {
        Ok(Some((file, profile))) => format!("{} ({})", file.display(), profile.medium_text()),
        Ok(None) => "none; `halocline calibrate DIR` measures the medium of its directory".to_owned(),
        Err(error) => format!("not read ({error})"),
    }
}

fn print_trees(trees: &[TreeInfo], out: &mut impl Write) -> Result<(), CliError> {
    for tree in trees {
        let TreeInfo { name, kind, .. } = tree;
        let entries = match &tree.entries {
            Ok(1) => "1 entry".to_owned(),
            Ok(entries) => format!("{} entries", grouped(*entries)),
            Err(reason) => format!("not opened ({reason})"),
        };
        writeln!(out, "\ntree {name}: {kind}, {entries}, {}", display(tree.bytes))?;
    }
    Ok(())
}

fn print_stores(stores: &[StoreInfo], out: &mut impl Write) -> Result<(), CliError> {
    for store in stores {
        writeln!(
            out,
            "\nstore {}: {}, {} of keys and values",
            store.name,
            counted(store.keys, "key"),
            display(store.bytes)
        )?;
    }
    Ok(())
}

fn store_json(store: &StoreInfo) -> Value {
    json!({ "name": store.name, "keys": store.keys, "bytes": store.bytes })
}

fn tree_json(tree: &TreeInfo) -> Value {
    json!({
        "name": tree.name,
        "kind": tree.kind.name(),
        "bytes": tree.bytes,
        "entries": tree.entries.as_ref().ok(),
        "not_opened": tree.entries.as_ref().err(),
    })
}

/// Describes the state of a table, such as `2 segments, 40 deleted rows, 3 rows in the log, clustered by
/// day`. Empty parts are left out, except for the segments.
fn state(table: &TableInfo) -> String {
    let mut parts = vec![counted(table.segments as u64, "segment")];
    if table.deleted_rows > 0 {
        parts.push(counted(table.deleted_rows, "deleted row"));
    }
    if table.log_rows > 0 {
        parts.push(format!("{} in the log", counted(table.log_rows, "row")));
    }
    if !table.cluster.is_empty() {
        parts.push(format!("clustered by {}", table.cluster.join(", ")));
    }
    parts.join(", ")
}

//! The queries of the demo: the three types of the Elf papers around a row of the table, and what TPC-H asks.

use halocline_bench::answer;
use halocline_engine::Database;
use halocline_workloads::{tpch_q6_sql, tpch_selections};

use super::steps::collect;
use crate::error::CliError;

/// The indexed columns: those that selections over lineitem ask for.
pub(crate) const INDEXED: [&str; 8] = [
    "l_returnflag",
    "l_linestatus",
    "l_shipinstruct",
    "l_shipmode",
    "l_discount",
    "l_quantity",
    "l_shipdate",
    "l_partkey",
];

/// A query of the demo.
pub(crate) struct DemoQuery {
    /// The name in the output.
    pub(crate) name: String,
    /// Its text; the first column of its answer is the number of selected rows.
    pub(crate) sql: String,
}

/// All queries. Those around a row take it from the table itself.
pub(crate) fn compose(database: &Database) -> Result<Vec<DemoQuery>, CliError> {
    let row = a_row(database)?;
    let exact: Vec<String> = INDEXED
        .iter()
        .zip(&row)
        .map(|(column, value)| format!("{column} = {value}"))
        .collect();
    let (quantity, date, part) = (&row[5], &row[6], &row[7]);
    // Windows of about 2 % of each ordered column's domain; strings keep their value.
    let parts = answer::lines(&collect(database, "SELECT max(l_partkey) / 50 FROM lineitem")?)?.concat();
    let ordered = [
        format!("l_discount BETWEEN {0} AND {0} + 0.01", row[4]),
        format!("l_quantity BETWEEN {quantity} AND {quantity} + 1"),
        format!("l_shipdate BETWEEN {date} AND {date} + INTERVAL '50' DAY"),
        format!("l_partkey BETWEEN {part} AND {part} + {parts}"),
    ];
    let mut queries = vec![
        selection("exact match", &exact.join(" AND ")),
        selection("range", &[&exact[..4], &ordered].concat().join(" AND ")),
        selection(
            "partial match",
            &[exact[3].clone(), ordered[2].clone(), ordered[3].clone()].join(" AND "),
        ),
    ];
    for tpch in tpch_selections() {
        queries.push(selection(
            &format!("TPC-H {}, selection", tpch.name),
            &tpch.where_clause(),
        ));
    }
    queries.push(DemoQuery {
        name: "TPC-H Q6".to_owned(),
        sql: tpch_q6_sql("lineitem").replacen("SELECT ", "SELECT count(*), ", 1),
    });
    Ok(queries)
}

fn selection(name: &str, condition: &str) -> DemoQuery {
    DemoQuery {
        name: name.to_owned(),
        sql: format!(
            "SELECT count(*), sum(l_extendedprice), min(l_orderkey), max(l_receiptdate) FROM lineitem WHERE {condition}"
        ),
    }
}

/// The values of the indexed columns in one row, as SQL literals.
fn a_row(database: &Database) -> Result<Vec<String>, CliError> {
    let sql = format!(
        "SELECT {} FROM lineitem WHERE l_linenumber = 1 ORDER BY l_orderkey LIMIT 1 OFFSET 100",
        INDEXED.join(", ")
    );
    let lines = answer::lines(&collect(database, &sql)?)?;
    let line = lines
        .first()
        .ok_or_else(|| CliError::failed("the generated table has fewer than 100 orders"))?;
    Ok(line
        .split('|')
        .zip(INDEXED)
        .map(|(value, column)| match column {
            "l_discount" | "l_quantity" | "l_partkey" => value.to_owned(),
            "l_shipdate" => format!("DATE '{value}'"),
            _ => format!("'{value}'"),
        })
        .collect())
}

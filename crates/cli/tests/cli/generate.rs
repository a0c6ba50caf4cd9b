//! Tables of public benchmarks, from generator to query.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use halocline_workloads::{SsbTable, ssb_queries};

use crate::common::{Home, assert_error, stdout};

const SCALE_FACTOR: &str = "0.02";

/// The revenue of query 1.1, computed row by row.
fn revenue_of_1_1(scale_factor: f64) -> i64 {
    SsbTable::Lineorder
        .reader(scale_factor, 0, 1)
        .map(|batch| {
            let batch = batch.unwrap();
            let column = |name: &str| {
                let column = batch.column_by_name(name).unwrap();
                column.as_primitive::<Int32Type>().values().clone()
            };
            let (date, discount) = (column("lo_orderdate"), column("lo_discount"));
            let (quantity, price) = (column("lo_quantity"), column("lo_extendedprice"));
            (0..batch.num_rows())
                .filter(|&i| date[i] / 10_000 == 1993 && (1..=3).contains(&discount[i]) && quantity[i] < 25)
                .map(|i| i64::from(price[i]) * i64::from(discount[i]))
                .sum::<i64>()
        })
        .sum()
}

#[test]
fn all_queries_of_the_star_schema_benchmark_run() {
    let home = Home::new();
    let written = stdout(&home.ok(&["generate", "ssb", "--sf", SCALE_FACTOR, "--dir", "ssb"]));
    assert_eq!(written.lines().count(), 5, "{written}");
    assert!(written.contains("ssb/date.parquet: 2,557 rows"), "{written}");
    for table in SsbTable::ALL {
        let file = format!("ssb/{table}.parquet");
        home.ok(&["import", "p", table.name(), &file]);
    }
    for query in ssb_queries() {
        let answer = home.csv("p", query.sql);
        match query.name {
            "1.1" => {
                let expected = revenue_of_1_1(SCALE_FACTOR.parse().unwrap());
                assert_eq!(answer, format!("revenue\n{expected}\n"));
            }
            // The rest selects so few rows that a table this small may have none.
            "1.2" | "2.1" | "3.1" | "4.1" => assert!(answer.lines().count() > 1, "{}: {answer}", query.name),
            _ => {}
        }
    }
}

#[test]
fn some_tables_are_generated_and_unknown_ones_refused() {
    let home = Home::new();
    let written = stdout(&home.ok(&["generate", "tpch", "--sf", "0.01", "--tables", "nation,region"]));
    assert!(written.starts_with("./nation.parquet: 25 rows"), "{written}");
    assert_eq!(written.lines().count(), 2, "{written}");
    let refused = home.fails(2, &["generate", "ssb", "--tables", "lineitem"]);
    assert_error(&refused, &["has no table `lineitem`"]);
    home.fails(2, &["generate", "tpcds"]);
    home.fails(2, &["generate", "ssb", "--sf", "0"]);
}

//! The order of joins: the shapes of the plans of TPC-H and SSB, build sides beside the rows that they really
//! have, and random joins beside plain DataFusion.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use halocline_engine::Database;
use halocline_workloads::{SsbTable, TpchTable, ssb_queries, tpch_queries};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::plan_tree::Operator;
use super::support::{import, lines, new_pool, plain, query, run, write_parquet};

/// Scale factor of TPC-H. Smaller ones have fewer suppliers than some joins have rows.
const SCALE_FACTOR: f64 = 0.05;

async fn tpch() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    for of in TpchTable::ALL {
        let path = dir.path().join(format!("{of}.parquet"));
        write_parquet(&path, of.reader(SCALE_FACTOR, 0, 1).map(Result::unwrap));
        import(&db, of.name(), &[path]);
    }
    (dir, db)
}

/// The expected plans of TPC-H, build sides first.
///
/// An order is taken for right if it begins with what the conditions leave few rows of (a region, a kind of
/// part, a quarter of a year of orders), reads the largest table once and as a probe side, and applies semi
/// joins before joins that multiply rows. The next test compares build sides with the rows there are.
const TPCH: [(u32, &str); 22] = [
    (1, "FusedAggregate"),
    (
        2,
        "(((((part * star(((region * nation) * supplier))) * partsupp) * supplier) * nation) * region)",
    ),
    (3, "star((customer * orders))"),
    (4, "agg((orders > lineitem))"),
    (
        5,
        "agg((supplier * ((((region * nation) * customer) * orders) * lineitem)))",
    ),
    (6, "FusedAggregate"),
    (
        7,
        "agg(((nation * supplier) * (((nation * customer) * orders) * lineitem)))",
    ),
    (
        8,
        "agg((nation * (((region * nation) * (((part * lineitem) * orders) * customer)) * supplier)))",
    ),
    (
        9,
        "agg(((((nation * supplier) * (part * partsupp)) * lineitem) * orders))",
    ),
    (10, "star((nation * (orders * customer)))"),
    (11, "(star((nation * supplier)) x star((nation * supplier)))"),
    (12, "agg((lineitem * orders))"),
    (13, "agg((customer | orders))"),
    (14, "agg((lineitem * part))"),
    (15, "((FusedAggregate * supplier) x agg(FusedAggregate))"),
    (16, "agg(star(part supplier))"),
    (17, "agg(((part * FusedAggregate) * lineitem))"),
    (18, "star((customer * (FusedAggregate < orders)))"),
    (19, "agg((part * lineitem))"),
    (20, "(nation * (((part < partsupp) > FusedAggregate) < supplier))"),
    (
        21,
        "agg((((((nation * supplier) * lineitem) -> lineitem) * orders) > lineitem))",
    ),
    (22, "(agg((customer -> orders)) x FusedAggregate)"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_joins_are_in_the_right_order() {
    let (_dir, db) = tpch().await;
    // An array join may exchange the sides.
    run(&db, "SET halocline.array_join = off").await;
    let mut wrong = Vec::new();
    for (tpch, (number, expected)) in tpch_queries(SCALE_FACTOR).into_iter().zip(TPCH) {
        assert_eq!(tpch.number, number);
        let found = Operator::from_explain(&db, &format!("EXPLAIN {}", tpch.sql))
            .await
            .shape();
        if found != expected {
            wrong.push(format!("    ({number}, \"{found}\"),"));
        }
    }
    assert!(wrong.is_empty(), "these plans are others:\n{}", wrong.join("\n"));
}

/// Queries with a join whose build side is larger in truth than the estimates say: nothing tells how many
/// orders have a sum of quantities above 300.
const MISJUDGED: [u32; 1] = [18];

/// Every hash join of TPC-H builds its table of the side that has fewer rows in truth, and collects it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_build_sides_are_the_smaller_ones() {
    let (_dir, db) = tpch().await;
    let (mut joins, mut wrong) = (0, Vec::new());
    for tpch in tpch_queries(SCALE_FACTOR) {
        let (number, larger) = sides(&db, &format!("Q{}", tpch.number), &tpch.sql).await;
        joins += number;
        if !MISJUDGED.contains(&tpch.number) {
            wrong.extend(larger);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(joins > 30, "{joins} joins");
}

/// Returns the number of hash joins of a query, and those whose build side is much larger than the other one.
async fn sides(db: &Database, name: &str, text: &str) -> (usize, Vec<String>) {
    // A build side would leave rows of the probe side out before they are counted.
    run(
        db,
        "SET datafusion.optimizer.enable_dynamic_filter_pushdown = false",
    )
    .await;
    let plan = Operator::from_explain(db, &format!("EXPLAIN ANALYZE {text}")).await;
    let (mut joins, mut wrong) = (0, Vec::new());
    plan.walk(&mut |operator| {
        let [build, probe] = operator.inputs.as_slice() else {
            return;
        };
        if operator.name != "HashJoinExec" {
            return;
        }
        joins += 1;
        assert_eq!(
            operator.value("mode"),
            Some("CollectLeft"),
            "{name}: {}",
            operator.line
        );
        let (built, probed) = (rows(build), rows(probe));
        if built as f64 > 2.0 * probed as f64 + 1000.0 {
            let (build, probe) = (build.shape(), probe.shape());
            wrong.push(format!(
                "{name}: {built} rows of {build} are built, {probed} of {probe} probed"
            ));
        }
    });
    (joins, wrong)
}

/// The rows that an operator has returned.
fn rows(operator: &Operator) -> u64 {
    match operator.value("output_rows") {
        Some(text) => {
            let number: f64 = text.split_whitespace().next().unwrap().parse().unwrap();
            let unit = match text.split_whitespace().nth(1) {
                Some("K") => 1e3,
                Some("M") => 1e6,
                _ => 1.0,
            };
            (number * unit) as u64
        }
        None => operator.inputs.first().map_or(0, rows),
    }
}

/// Star queries come before the order of joins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_queries_stay_star_joins_and_their_plain_plans_build_smaller_sides() {
    let (dir, db) = new_pool();
    for of in SsbTable::ALL {
        let path = dir.path().join(format!("{of}.parquet"));
        write_parquet(&path, of.reader(0.02, 0, 1).map(Result::unwrap));
        import(&db, of.name(), &[path]);
    }
    for ssb in ssb_queries() {
        let explain = format!("EXPLAIN {}", ssb.sql);
        run(&db, "SET halocline.star_join = on").await;
        let star = query(&db, &explain).await.join("\n");
        assert!(star.contains("StarJoin"), "{}: {star}", ssb.name);
        let expected = query(&db, ssb.sql).await;
        run(&db, "SET halocline.star_join = off").await;
        let (joins, wrong) = sides(&db, ssb.name, ssb.sql).await;
        assert!(joins > 0 && wrong.is_empty(), "{}: {wrong:?}", ssb.name);
        assert_eq!(query(&db, ssb.sql).await, expected, "{}", ssb.name);
    }
}

/// Numbers of rows of the tables of random joins: `t0` is the smallest one.
const ROWS: [i64; 5] = [12, 60, 150, 400, 900];

/// Creates `t0` to `t4`, each with keys `a` and `b` with few and many values, a decimal, a text, and NULLs in
/// all of them; `t3` has deleted rows and rows in the log, `t4` several segments.
async fn random_tables(db: &Database) {
    for (number, rows) in ROWS.iter().enumerate() {
        let text = format!(
            "CREATE TABLE t{number} AS SELECT CASE WHEN v % 11 <> 5 THEN v % {few} END AS a, \
             CASE WHEN v % 13 <> 7 THEN v * {number} % {rows} END AS b, \
             CAST(CASE WHEN v % 7 <> 3 THEN v % 17 END AS DECIMAL(12, 2)) AS d, \
             CASE WHEN v % 9 <> 1 THEN 'text ' || (v % 5) END AS s, v AS id \
             FROM generate_series(1, {rows}) AS g(v)",
            few = 5 + number * 3,
        );
        run(db, &text).await;
    }
    run(
        db,
        "INSERT INTO t4 SELECT a, b, d, s, id + 1000 FROM t4 WHERE id % 3 = 0",
    )
    .await;
    run(db, "DELETE FROM t3 WHERE id % 5 = 2").await;
    run(
        db,
        "INSERT INTO t3 VALUES (1, 2, 3.50, 'text 1', 5000), (NULL, NULL, NULL, NULL, 5001)",
    )
    .await;
}

/// A random query over some of the tables. Its result is ordered by nothing.
fn random_query(rng: &mut StdRng) -> String {
    let number = rng.random_range(2..=6usize);
    let tables: Vec<usize> = (0..number).map(|_| rng.random_range(0..ROWS.len())).collect();
    let alias = |at: usize| format!("x{at}");
    let key = |rng: &mut StdRng| *["a", "b", "b", "id", "d", "s"].choose(rng).unwrap();
    let mut text = format!("t{} {}", tables[0], alias(0));
    let mut conditions = Vec::new();
    let mut seen = vec![0];
    for (at, table) in tables.iter().enumerate().skip(1) {
        let other = *seen.choose(rng).unwrap();
        let column = key(rng);
        let on = match column {
            // The same type on both sides; some joins are on an expression.
            "a" | "b" | "id" if rng.random_range(0..6) == 0 => {
                format!(
                    "{}.{} + 1 = {}.{column}",
                    alias(other),
                    ["a", "b"].choose(rng).unwrap(),
                    alias(at)
                )
            }
            "a" | "b" | "id" => {
                format!(
                    "{}.{} = {}.{column}",
                    alias(other),
                    ["a", "b", "id"].choose(rng).unwrap(),
                    alias(at)
                )
            }
            same => format!("{}.{same} = {}.{same}", alias(other), alias(at)),
        };
        let more = match rng.random_range(0..4) {
            0 => format!(" AND {}.a = {}.a", alias(*seen.choose(rng).unwrap()), alias(at)),
            1 => format!(
                " AND {}.id < {}.id + 300",
                alias(*seen.choose(rng).unwrap()),
                alias(at)
            ),
            _ => String::new(),
        };
        match rng.random_range(0..10) {
            0 => text = format!("{text} LEFT JOIN t{table} {} ON {on}{more}", alias(at)),
            1 => text = format!("{text} RIGHT JOIN t{table} {} ON {on}", alias(at)),
            2 => text = format!("{text} FULL JOIN t{table} {} ON {on}", alias(at)),
            3 => {
                conditions.push(format!(
                    "EXISTS (SELECT 1 FROM t{table} {} WHERE {on}{more})",
                    alias(at)
                ));
                continue;
            }
            4 => {
                conditions.push(format!(
                    "NOT EXISTS (SELECT 1 FROM t{table} {} WHERE {on}{more})",
                    alias(at)
                ));
                continue;
            }
            5 => {
                let (of, column) = (alias(other), ["a", "b"].choose(rng).unwrap());
                let not = if rng.random_range(0..3) == 0 { "NOT " } else { "" };
                conditions.push(format!(
                    "{of}.{column} {not}IN (SELECT {column} FROM t{table} WHERE id % 2 = 0 AND {column} IS NOT NULL)"
                ));
                continue;
            }
            _ => text = format!("{text} JOIN t{table} {} ON {on}{more}", alias(at)),
        }
        seen.push(at);
    }
    for _ in 0..rng.random_range(0..3) {
        let of = alias(*seen.choose(rng).unwrap());
        conditions.push(match rng.random_range(0..6) {
            0 => format!("{of}.id < 100"),
            1 => format!("{of}.s = 'text 2'"),
            2 => format!("({of}.a = 1 OR {of}.b = 2)"),
            3 => format!("{of}.d IS NOT NULL"),
            4 => format!("{of}.b > {}.a", alias(*seen.choose(rng).unwrap())),
            _ => format!("{of}.s LIKE '%3'"),
        });
    }
    // No query returns more rows than a test can compare.
    let outputs: Vec<String> = seen
        .iter()
        .map(|at| format!("sum({}.id), count({0}.s)", alias(*at)))
        .collect();
    let group = alias(*seen.choose(rng).unwrap());
    let filter = match conditions.as_slice() {
        [] => String::new(),
        conditions => format!(" WHERE {}", conditions.join(" AND ")),
    };
    format!(
        "SELECT {group}.a, {group}.s, count(*), {} FROM {text}{filter} GROUP BY {group}.a, {group}.s",
        outputs.join(", ")
    )
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_agree_with_plain_datafusion() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (dir, db) = new_pool();
    random_tables(&db).await;
    let mut files = Vec::new();
    for number in 0..ROWS.len() {
        let path = dir.path().join(format!("t{number}.parquet"));
        query(&db, &format!("COPY t{number} TO '{}'", path.display())).await;
        files.push((format!("t{number}"), path));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(name, path)| (name.as_str(), path.as_path()))
        .collect();
    let plain = plain(&files).await;
    let mut others = 0;
    for _ in 0..80 {
        let text = random_query(&mut rng);
        let batches = plain
            .sql(&text)
            .await
            .unwrap_or_else(|e| panic!("{text}: {e}"))
            .collect()
            .await;
        let mut expected = lines(&batches.unwrap_or_else(|e| panic!("{text}: {e}")));
        expected.sort_unstable();
        let mut shapes = Vec::new();
        for mode in ["on", "off"] {
            run(&db, &format!("SET halocline.join_order = {mode}")).await;
            let plan = Operator::from_explain(&db, &format!("EXPLAIN {text}")).await;
            let mut found = query(&db, &text).await;
            found.sort_unstable();
            assert_eq!(found, expected, "join_order = {mode}: {text}\n{}", plan.shape());
            shapes.push(plan.shape());
        }
        others += usize::from(shapes[0] != shapes[1]);
    }
    assert!(others > 10, "{others} of 80 plans have another order");
}

/// More relations than are ordered exactly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_relations_are_joined() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE n AS SELECT v AS k, v % 7 AS g FROM generate_series(1, 50) AS s(v)",
    )
    .await;
    let joined: String = (1..14)
        .map(|at| format!(" JOIN n n{at} ON n{at}.k = n{}.k", at - 1))
        .collect();
    let text = format!("SELECT count(*), sum(n0.g) FROM n n0{joined} WHERE n13.g = 3");
    assert_eq!(query(&db, &text).await, ["7|21"]);
    let cross = "SELECT count(*) FROM n a, n b, n c WHERE a.k = b.k AND c.g = 1 AND a.g + c.g = 3";
    let found = query(&db, cross).await;
    run(&db, "SET halocline.join_order = off").await;
    assert_eq!(query(&db, &text).await, ["7|21"]);
    assert_eq!(query(&db, cross).await, found);
}

/// A table without statistics keeps a query as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_keyed_tables_are_joined() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE small AS SELECT v AS k FROM generate_series(1, 5) AS s(v)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE large AS SELECT v % 10 AS k, v FROM generate_series(1, 5000) AS s(v)",
    )
    .await;
    run(&db, "CREATE TABLE keyed (k BIGINT PRIMARY KEY, t TEXT)").await;
    run(
        &db,
        "INSERT INTO keyed VALUES (1, 'one'), (2, 'two'), (7, 'seven')",
    )
    .await;
    let path = dir.path().join("large.parquet");
    query(&db, &format!("COPY large TO '{}'", path.display())).await;
    let external = format!(
        "CREATE EXTERNAL TABLE file STORED AS PARQUET LOCATION '{}'",
        path.display()
    );
    run(&db, &external).await;
    for (text, expected) in [
        (
            "SELECT count(*) FROM large JOIN small ON large.k = small.k".to_string(),
            "2500",
        ),
        (
            "SELECT count(*) FROM file JOIN small ON file.k = small.k".into(),
            "2500",
        ),
        (
            "SELECT count(*) FROM file JOIN large ON file.v = large.v JOIN small ON file.k = small.k".into(),
            "2500",
        ),
        (
            "SELECT count(*) FROM large JOIN keyed ON large.k = keyed.k JOIN small ON small.k = keyed.k"
                .into(),
            "1000",
        ),
    ] {
        assert_eq!(query(&db, &text).await, [expected], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_stay_with_their_side_of_an_outer_join() {
    let (dir, db) = new_pool();
    let file = dir.path().join("b.parquet");
    run(
        &db,
        "CREATE TABLE b AS SELECT v % 40 AS k, v FROM generate_series(1, 2000) AS t(v)",
    )
    .await;
    query(&db, &format!("COPY b TO '{}'", file.display())).await;
    let external = format!(
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{}'",
        file.display()
    );
    run(&db, &external).await;
    let wanted = query(&db, "SELECT v, 41 FROM b WHERE k = 1 AND v % 3 = 1 ORDER BY v").await;
    assert!(!wanted.is_empty());
    for order in ["on", "off"] {
        run(&db, &format!("SET halocline.join_order = {order}")).await;
        for table in ["b", "e"] {
            // Both sides have the columns, and the row of the right one does not meet the condition on the
            // left.
            let text = format!(
                "SELECT l.v, r.v FROM {table} l RIGHT JOIN {table} r ON l.k = r.k \
                 WHERE (l.k IS NULL OR l.v % 3 = 1) AND r.v % 2500 = 41 ORDER BY l.v"
            );
            assert_eq!(query(&db, &text).await, wanted, "{text}");
        }
    }
}

#[tokio::test]
async fn files_are_filtered_by_what_reads_them() {
    let (dir, db) = new_pool();
    for (table, modulus) in [("b", 40), ("c", 7)] {
        let file = dir.path().join(format!("{table}.parquet"));
        for statement in [
            format!(
                "CREATE TABLE {table} AS SELECT v % {modulus} AS k, v FROM generate_series(1, 2000) AS t(v)"
            ),
            format!("COPY {table} TO '{}'", file.display()),
            format!(
                "CREATE EXTERNAL TABLE {table}_file STORED AS PARQUET LOCATION '{}'",
                file.display()
            ),
        ] {
            query(&db, &statement).await;
        }
    }
    let plan = query(&db, "EXPLAIN SELECT v FROM b_file WHERE k = 39")
        .await
        .join("\n");
    assert!(plan.contains("predicate=k@0 = 39"), "{plan}");
    for (first, second) in [("l", "r"), ("r", "l")] {
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            // All relations have the same names of columns. The outer joins keep the small relation off one
            // side.
            let of = |files: &str| {
                format!(
                    "SELECT d.v, {first}.k, {second}.k, l.v FROM (SELECT k, v FROM c{files} WHERE v < 4) d JOIN \
                     (b{files} l {join} c{files} r ON l.v = r.v) ON d.k = {first}.k \
                     ORDER BY d.v, l.v, {first}.k, {second}.k"
                )
            };
            let (pool, files) = (of(""), of("_file"));
            assert_eq!(query(&db, &files).await, query(&db, &pool).await, "{files}");
        }
    }
}

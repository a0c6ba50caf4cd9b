//! Importing files, good and bad.

mod common;

use common::{Home, assert_error, stderr, stdout, table_csv};

#[test]
fn a_csv_file_becomes_a_table_of_a_new_pool() {
    let home = Home::new();
    home.write("t.csv", table_csv(1000));
    let run = home.ok(&["import", "p", "t", "t.csv"]);
    assert!(
        stdout(&run).starts_with("table t: 1,000 rows"),
        "{}",
        stdout(&run)
    );
    assert_eq!(stderr(&run), "", "no progress bars in a pipe");
    assert_eq!(
        home.csv(
            "p",
            "SELECT count(*) AS n, sum(id) AS s, count(name) AS names, sum(price) AS p FROM t"
        ),
        "n,s,names,p\n1000,499500,900,49750.0\n"
    );
}

#[test]
fn several_files_make_one_table() {
    let home = Home::new();
    home.write("a.csv", table_csv(10));
    home.write("b.csv", table_csv(20));
    home.ok(&["import", "p", "t", "a.csv", "b.csv"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n30\n");
}

#[test]
fn a_schema_replaces_what_would_be_inferred() {
    let home = Home::new();
    home.write("t.csv", "7;1.50;x\n8;;y\n");
    home.ok(&[
        "import",
        "p",
        "t",
        "t.csv",
        "--no-header",
        "--delimiter",
        ";",
        "--schema",
        "id bigint not null, price decimal(10,2), name text",
    ]);
    assert_eq!(
        home.csv("p", "SELECT id, price, name FROM t ORDER BY id"),
        "id,price,name\n7,1.50,x\n8,,y\n"
    );
}

#[test]
fn tbl_files_are_read_with_their_trailing_bar() {
    let home = Home::new();
    home.write(
        "nation.tbl",
        "0|ALGERIA|0|haggle. carefully|\n1|ARGENTINA|1|al foxes|\n",
    );
    home.ok(&[
        "import",
        "p",
        "nation",
        "nation.tbl",
        "--schema",
        "n_nationkey int, n_name text, n_regionkey int, n_comment text",
    ]);
    assert_eq!(
        home.csv("p", "SELECT n_name, n_comment FROM nation WHERE n_nationkey = 1"),
        "n_name,n_comment\nARGENTINA,al foxes\n"
    );
}

#[test]
fn a_bad_number_names_file_and_line_and_leaves_no_pool() {
    let home = Home::new();
    home.write("t.csv", "id,n\n1,2\n2,3\n3,four\n");
    let run = home.fails(1, &["import", "p", "t", "t.csv", "--schema", "id int, n int"]);
    assert_error(&run, &["t.csv", "line 4", "four", "hint: nothing was imported"]);
    assert_eq!(stdout(&run), "");
    assert!(
        !home.path("p").exists(),
        "the pool that was made for the import is gone"
    );
}

#[test]
fn a_short_line_names_its_number_and_leaves_the_pool_as_it_was() {
    let home = Home::with_table();
    home.write("bad.csv", "a,b\n1,2\n3\n");
    assert_error(
        &home.fails(1, &["import", "p", "u", "bad.csv"]),
        &["bad.csv", "line 3", "column"],
    );
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
    assert_error(&home.fails(1, &["sql", "p", "SELECT * FROM u"]), &["u"]);
}

#[test]
fn text_that_is_not_utf8_names_its_line() {
    let home = Home::new();
    home.write("t.csv", b"a,b\n1,x\n2,\xff\xfe\n");
    assert_error(
        &home.fails(1, &["import", "p", "t", "t.csv"]),
        &["t.csv", "line 3", "UTF-8"],
    );
}

#[test]
fn files_that_are_missing_or_foreign_are_named() {
    let home = Home::new();
    assert_error(&home.fails(1, &["import", "p", "t", "none.csv"]), &["none.csv"]);
    assert!(!home.path("p").exists());
    home.write("x.parquet", "this is not Parquet");
    assert_error(
        &home.fails(1, &["import", "p", "t", "x.parquet", "--format", "parquet"]),
        &["x.parquet"],
    );
}

#[test]
fn a_table_is_not_overwritten() {
    let home = Home::with_table();
    assert_error(&home.fails(1, &["import", "p", "t", "t.csv"]), &["t", "exists"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
}

#[test]
fn a_wrong_schema_is_a_wrong_command_line() {
    let home = Home::new();
    home.write("t.csv", table_csv(1));
    assert_error(
        &home.fails(2, &["import", "p", "t", "t.csv", "--schema", "id bigger"]),
        &["--schema", "hint: "],
    );
    assert!(!home.path("p").exists());
}

#[test]
fn a_file_that_is_no_pool_is_left_alone() {
    let home = Home::new();
    home.write("t.csv", table_csv(1));
    home.write("p", "these are my notes, not a pool".repeat(500));
    assert_error(
        &home.fails(1, &["import", "p", "t", "t.csv"]),
        &["p", "not a pool"],
    );
    assert!(
        std::fs::read_to_string(home.path("p"))
            .unwrap()
            .starts_with("these are my notes")
    );
}

#[test]
fn rows_are_sorted_on_import_and_on_later_ones() {
    let home = Home::new();
    home.write("a.csv", "id,word\n3,c\n1,a\n2,b\n1,z\n");
    home.write("b.csv", "id,word\n5,e\n4,d\n");
    home.ok(&["import", "p", "t", "a.csv", "--sort", "id"]);
    let rows = "SELECT * FROM t";
    assert_eq!(home.csv("p", rows), "id,word\n1,a\n1,z\n2,b\n3,c\n");
    // The table knows its order; saying it again changes nothing.
    for arguments in [&[][..], &["--sort", "id"]] {
        let mut command = vec!["import", "p", "t", "b.csv", "--append"];
        command.extend(arguments);
        home.ok(&command);
    }
    // What was imported together is in order; which comes first, threads decide.
    let read = home.csv("p", rows);
    assert!(read.contains("1,a\n1,z\n2,b\n3,c\n"), "{read}");
    assert_eq!(read.matches("4,d\n5,e\n").count(), 2, "{read}");
    assert_eq!(read.lines().count(), 1 + 8, "{read}");
    assert!(stdout(&home.ok(&["info", "p"])).contains("clustered by id"));
    assert_error(
        &home.fails(1, &["import", "p", "t", "b.csv", "--append", "--sort", "word"]),
        &["sorted by id", "CLUSTER BY (word)"],
    );
    assert_error(
        &home.fails(1, &["import", "p", "u", "b.csv", "--sort", "day"]),
        &["no column `day`"],
    );
}

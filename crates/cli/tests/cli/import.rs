//! Importing files, good and bad.

use crate::common::{Home, assert_error, stderr, stdout, table_csv};

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
        "n,s,names,p\n1000,499500,900,49750.00\n"
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

#[test]
fn values_come_back_as_they_were_and_the_report_says_what_decided() {
    let home = Home::new();
    let text = "id,zip,phone,price,at,big,note\n\
                1,02139,+15551234,1.50,2024-01-05 10:00:00,9223372036854775808,\"\"\n\
                2,10115,030001,22.75,2024-01-05 10:00:00.250,1,\n";
    home.write("t.csv", text);
    let run = home.ok(&["import", "p", "t", "t.csv"]);
    let report = stdout(&run);
    for part in [
        "t.csv: delimiter ,, quote \", header yes",
        "  id bigint: line 2: \"1\"",
        "  zip varchar: line 2: \"02139\"",
        "  price decimal(18,2): line 2: \"1.50\"",
        "  at timestamp(9): line 2",
    ] {
        assert!(report.contains(part), "`{part}` is not in\n{report}");
    }
    assert_eq!(home.csv("p", "SELECT * FROM t ORDER BY id"), text);
    home.ok(&["sql", "p", "COPY t TO 'out.csv'"]);
    let copied = std::fs::read_to_string(home.path("out.csv")).unwrap();
    assert!(
        copied.contains("02139") && copied.contains("2024-01-05 10:00:00.250"),
        "{copied}"
    );
}

#[test]
fn dialects_can_be_given() {
    let home = Home::new();
    home.write("t.csv", "1;\"x;NA;a\n2;y\";-;b\n");
    let run = home.fails(1, &["import", "p", "t", "t.csv", "--delimiter", ";"]);
    assert_error(&run, &["t.csv, line 1", "--quote none", "nothing was imported"]);
    home.ok(&[
        "import",
        "p",
        "t",
        "t.csv",
        "--quote",
        "none",
        "--delimiter",
        ";",
        "--header",
        "no",
        "--null",
        "NA",
        "--null",
        "-",
        "--type",
        "c1=varchar",
    ]);
    assert_eq!(
        home.csv("p", "SELECT * FROM t ORDER BY c1"),
        "c1,c2,c3,c4\n1,\"\"\"x\",,a\n2,\"y\"\"\",,b\n"
    );
    for (arguments, part) in [
        (["--quote", "ab"], "a quote is one ASCII character"),
        (["--header", "maybe"], "say `yes` or `no`"),
        (["--type", "c1"], "COLUMN=TYPE"),
    ] {
        let mut command = vec!["import", "p", "u", "t.csv"];
        command.extend(arguments);
        assert_error(&home.fails(2, &command), &[part]);
    }
}

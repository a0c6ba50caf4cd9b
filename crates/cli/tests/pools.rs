//! `info`, `check`, and the locks of pools.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use common::{Home, assert_error, stderr, stdout};
use halocline_pool::{Pool, PoolOptions};

#[test]
fn info_shows_tables_columns_and_indexes() {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "day,id"]);
    let text = stdout(&home.ok(&["info", "p"]));
    for part in [
        "medium",
        "table t: 1,000 rows",
        "price",
        "index t_elf on t",
        "day",
        "packed",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn info_as_json_is_one_object() {
    let home = Home::with_table();
    home.ok(&[
        "index", "p", "t", "--on", "day,id", "--name", "by_day", "--order", "given",
    ]);
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert_eq!(info["tables"][0]["name"], "t");
    assert_eq!(info["tables"][0]["rows"], 1000);
    assert_eq!(info["tables"][0]["columns"].as_array().unwrap().len(), 4);
    assert_eq!(info["indexes"][0]["name"], "by_day");
    assert_eq!(info["indexes"][0]["columns"], serde_json::json!(["day", "id"]));
    assert!(info["pool"]["used_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn an_index_names_what_is_missing() {
    let home = Home::with_table();
    let run = home.ok(&["index", "p", "t", "--on", "name, price", "--layout", "published"]);
    assert!(stdout(&run).starts_with("index t_elf on t ("), "{}", stdout(&run));
    assert_error(&home.fails(1, &["index", "p", "u", "--on", "id"]), &["u"]);
    assert_error(
        &home.fails(1, &["index", "p", "t", "--on", "ident", "--name", "x"]),
        &["ident"],
    );
    assert_error(
        &home.fails(1, &["index", "p", "t", "--on", "id"]),
        &["t_elf", "exists"],
    );
}

#[test]
fn objects_are_dropped() {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "id"]);
    home.ok(&["drop", "p", "t_elf"]);
    assert!(!stdout(&home.ok(&["info", "p"])).contains("t_elf"));
    home.ok(&["index", "p", "t", "--on", "id"]);
    home.ok(&["drop", "p", "t"]);
    let info = stdout(&home.ok(&["info", "p"]));
    assert!(info.contains("no tables") && !info.contains("t_elf"), "{info}");
    assert_error(&home.fails(1, &["drop", "p", "t"]), &["t"]);
}

#[test]
fn commands_on_a_missing_pool_say_how_to_make_one() {
    let home = Home::new();
    for arguments in [
        &["info", "none"][..],
        &["check", "none"],
        &["drop", "none", "t"],
        &["index", "none", "t", "--on", "a"],
    ] {
        assert_error(
            &home.fails(1, arguments),
            &["there is no pool none", "hint: ", "import"],
        );
        assert!(!home.path("none").exists());
    }
}

#[test]
fn a_whole_pool_passes_the_check() {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "day,name,price"]);
    let text = stdout(&home.ok(&["check", "p"]));
    assert!(
        text.contains("no damage found") && text.contains("1 tables, 1 indexes"),
        "{text}"
    );
    let text = stdout(&home.ok(&["check", "p", "--repair"]));
    assert!(text.contains("nothing that was published is given up"), "{text}");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
}

#[test]
fn damage_is_found_and_named() {
    let home = Home::with_table();
    let at = {
        let pool = Pool::open(home.path("p"), &PoolOptions::default().with_read_only(true)).unwrap();
        let table = pool.snapshot().unwrap().object("table/t").unwrap();
        let extent = table.extent_ref(0);
        extent.offset + extent.len / 2
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(home.path("p"))
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    let run = home.fails(1, &["check", "p"]);
    assert_error(&run, &["damaged", "hint: "]);
    assert!(stdout(&run).contains("damaged: "), "{}", stdout(&run));
    assert!(stdout(&run).contains("table"), "{}", stdout(&run));
}

#[test]
fn a_pool_that_is_cut_off_is_refused() {
    let home = Home::with_table();
    let file = OpenOptions::new().write(true).open(home.path("p")).unwrap();
    file.set_len(5000).unwrap();
    for arguments in [&["info", "p"][..], &["sql", "p", "SELECT 1"], &["check", "p"]] {
        assert_error(&home.fails(1, arguments), &["p"]);
    }
}

#[test]
fn a_second_writer_is_told_who_the_first_one_is() {
    let home = Home::with_table();
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    let writing = pool.begin().unwrap();
    assert_error(&home.fails(1, &["import", "p", "u", "t.csv"]), &["being written"]);
    assert_error(&home.fails(1, &["sql", "p", "DROP TABLE t"]), &["being written"]);
    assert_eq!(
        home.csv("p", "SELECT count(*) AS n FROM t"),
        "n\n1000\n",
        "readers are not kept out"
    );
    drop(writing);
    let run = home.ok(&["import", "p", "u", "t.csv"]);
    assert_eq!(stderr(&run), "");
}

#[test]
fn info_shows_what_is_in_dram() {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "day,id"]);
    let said = stdout(&home.ok(&[
        "sql",
        "p",
        "ALTER INDEX t_elf SET (placement = 'static', dram = '1MiB')",
    ]));
    assert!(said.contains("static, at most 1MiB of DRAM"), "{said}");
    let text = stdout(&home.ok(&["info", "p"]));
    let expected = "placement   static, at most 1MiB of DRAM: not loaded, up to about ";
    assert!(text.contains(expected), "{text}");
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    let index = &info["indexes"][0];
    assert_eq!(
        (&index["placement"], &index["dram"]),
        (&"static".into(), &(1 << 20).into())
    );
    assert!(index["dram_bytes"].is_null() && info["dram_budget"].is_u64());
    // In one session: what queries have put there, and what a budget has not.
    let script = "SET halocline.index = force; SELECT count(*) FROM t WHERE id = 5;\n\\d t\n\
                  SET halocline.dram_budget = 0;\n\\d t\n";
    let run = home.command(&["sql", "p"]).write_stdin(script).assert().success();
    let text = stdout(&run);
    assert!(text.contains("in DRAM\n"), "{text}");
    assert!(
        text.contains("halocline.dram_budget leaves 0 bytes of DRAM"),
        "{text}"
    );
    // Nothing of it is stored, so another process has nothing in DRAM yet.
    let said = stdout(&home.ok(&[
        "sql",
        "p",
        "ALTER INDEX t_elf SET (placement = 'volatile', dram = unlimited)",
    ]));
    assert!(
        said.contains("index t_elf: volatile: ") && said.contains("in DRAM"),
        "{said}"
    );
    let text = stdout(&home.ok(&["info", "p"]));
    let expected = "placement   volatile: not built, up to about ";
    assert!(
        text.contains(expected) && text.contains("1,000 rows, 0 B"),
        "{text}"
    );
    home.ok(&["check", "p"]);
    home.ok(&["sql", "p", "ALTER INDEX t_elf SET (placement = 'slow-only')"]);
}

#[test]
fn a_pool_may_be_read_as_from_another_medium() {
    let home = Home::with_table();
    let run = home.ok(&[
        "sql",
        "p",
        "SELECT count(*) FROM t",
        "--medium",
        "emulated:optane:virtual",
    ]);
    assert!(stdout(&run).contains("1000"), "{}", stdout(&run));
    let error = home.fails(2, &["sql", "p", "SELECT 1", "--medium", "optane"]);
    assert!(stderr(&error).contains("emulated:"), "{}", stderr(&error));
}

//! `info`, `check`, and the locks of pools.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};

use halocline_pool::{Pool, PoolOptions};

use crate::common::{Home, assert_error, stderr, stdout};

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
        text.contains("no damage found") && text.contains("1 table, 1 index,"),
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

/// A pool `p` with a table, one with a primary key, a tree and a store.
fn home_with_all() -> Home {
    let home = Home::with_table();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE k (id bigint, name varchar, PRIMARY KEY (name, id)); \
         INSERT INTO k VALUES (1, 'a'), (2, 'b'), (3, 'b')",
    ]);
    home.ok(&["kv", "p", "create", "numbers"]);
    home.ok(&["kv", "p", "create", "--store", "words"]);
    home.ok(&["kv", "p", "--name", "words", "put", "a", "b"]);
    home
}

#[test]
fn tables_with_a_primary_key_are_described() {
    let home = home_with_all();
    let text = stdout(&home.ok(&["info", "p"]));
    for part in ["table k with a primary key: 3 rows", "primary key (name, id)"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert_eq!(info["tables"].as_array().unwrap().len(), 1);
    let keyed = &info["keyed_tables"][0];
    assert_eq!((&keyed["name"], &keyed["rows"]), (&"k".into(), &3.into()));
    assert_eq!(keyed["primary_key"], serde_json::json!(["name", "id"]));
    assert_eq!(keyed["columns"][0]["type"], "bigint");
    assert_eq!(keyed["columns"][0]["nullable"], false);
    let shell = home
        .command(&["sql", "p"])
        .write_stdin("\\d\n\\d k\n")
        .assert()
        .success();
    let text = stdout(&shell);
    for part in [
        "table with a primary key",
        "id, name",
        "varchar",
        "primary key (name, id)",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert_error(
        &home.fails(1, &["index", "p", "k", "--on", "id"]),
        &["index on k, which has a primary key, is not supported"],
    );
    let text = stdout(&home.ok(&["compact", "p", "k"]));
    assert_eq!(text, "there was nothing worth merging\n");
    home.ok(&["drop", "p", "k"]);
    assert!(!stdout(&home.ok(&["info", "p"])).contains("table k"));
}

/// Runs a shell script in the directory of a test, with the program and its arguments as `"$@"`.
fn by_shell(home: &Home, script: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = assert_cmd::Command::new("sh");
    command
        .current_dir(home.directory())
        .env("XDG_STATE_HOME", home.path("state"))
        .env("TMPDIR", home.directory())
        .args(["-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("halocline"))
        .args(arguments);
    command.assert()
}

/// Runs the program so that the permissions of files hold for it, also if the superuser runs the test.
fn without_privileges(home: &Home, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let run = "test $(id -u) -ne 0 && exec \"$@\"; exec setpriv --bounding-set=-dac_override \"$@\"";
    by_shell(home, run, arguments)
}

/// Runs the program where the file system of the directory is mounted read-only: for the program alone, which
/// gets a view of its own.
fn on_read_only_file_system(home: &Home, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mount = "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" && exec \"$@\"";
    let run = format!("exec unshare --map-root-user --mount sh -c '{mount}' sh \"$@\"");
    by_shell(home, &run, arguments)
}

/// Returns true if this machine lets a test mount a file system read-only.
fn can_mount() -> bool {
    let run = "unshare --map-root-user --mount sh -c 'mount --bind . . && mount -o remount,bind,ro .'";
    let mounted = std::process::Command::new("sh")
        .current_dir(Home::new().directory())
        .args(["-c", run])
        .output();
    mounted.is_ok_and(|mounted| mounted.status.success())
}

#[test]
#[allow(clippy::print_stdout, reason = "a test that is passed over says so")]
fn a_file_on_a_read_only_file_system_is_read_and_checked() {
    if !can_mount() {
        println!("no file system can be mounted read-only here, so it is not tried");
        return;
    }
    let home = home_with_all();
    let before = fs::read(home.path("p")).unwrap();
    let text = stdout(&on_read_only_file_system(&home, &["check", "p"]).success());
    for part in ["no damage found", "1 table, 0 indexes, 1 tree, 3 stores"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let query = ["sql", "p", "SELECT count(*) AS n FROM k", "--output", "csv"];
    let run = on_read_only_file_system(&home, &query);
    assert_eq!(stdout(&run.success()), "n\n3\n");
    let get = ["kv", "p", "--name", "words", "get", "a", "--raw"];
    let run = on_read_only_file_system(&home, &get);
    assert_eq!(stdout(&run.success()), "b");
    for arguments in [
        &["sql", "p", "INSERT INTO k VALUES (9, 'z')"][..],
        &["kv", "p", "--name", "words", "put", "a", "c"],
        &["drop", "p", "t"],
    ] {
        let run = on_read_only_file_system(&home, arguments).code(1);
        assert_error(&run, &["read-only"]);
    }
    assert!(
        before == fs::read(home.path("p")).unwrap(),
        "the file has changed"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_read_and_checked() {
    let home = home_with_all();
    let before = fs::read(home.path("p")).unwrap();
    fs::set_permissions(home.path("p"), fs::Permissions::from_mode(0o444)).unwrap();
    let text = stdout(&without_privileges(&home, &["check", "p"]).success());
    for part in ["no damage found", "1 table, 0 indexes, 1 tree, 3 stores"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let text = stdout(&without_privileges(&home, &["info", "p"]).success());
    for part in [
        "table t: 1,000 rows",
        "table k with a primary key: 3 rows",
        "store words: 1 key",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let query = ["sql", "p", "SELECT count(*) AS n FROM k", "--output", "csv"];
    for read_only in [&[][..], &["--read-only"]] {
        let run = without_privileges(&home, &[&query[..], read_only].concat());
        assert_eq!(stdout(&run.success()), "n\n3\n");
    }
    let run = without_privileges(&home, &["kv", "p", "--name", "words", "get", "a", "--raw"]);
    assert_eq!(stdout(&run.success()), "b");
    for arguments in [
        &["sql", "p", "INSERT INTO k VALUES (9, 'z')"][..],
        &["sql", "p", "DROP TABLE t"],
        &["kv", "p", "--name", "words", "put", "a", "c"],
        &["kv", "p", "--name", "words", "drop"],
        &["drop", "p", "k"],
        &["compact", "p"],
        &["vacuum", "p"],
    ] {
        assert_error(&without_privileges(&home, arguments).code(1), &["read-only"]);
    }
    assert!(
        before == fs::read(home.path("p")).unwrap(),
        "the file has changed"
    );
}

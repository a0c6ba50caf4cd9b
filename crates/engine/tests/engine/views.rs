//! Views: what they return, how they follow their tables, and what is refused.

use halocline_engine::{Database, DatabaseOptions, ScalarValue};

use super::support::{error, new_pool, query, reopen, run};

async fn orders() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    for text in [
        "CREATE TABLE orders (id int, customer text, amount int)",
        "INSERT INTO orders VALUES (1, 'Ada', 10), (2, 'Bob', 20), (3, 'Ada', 30), (4, NULL, NULL)",
        "CREATE TABLE customers (name text, city text)",
        "INSERT INTO customers VALUES ('Ada', 'London'), ('Bob', 'Paris')",
    ] {
        run(&db, text).await;
    }
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_its_query() {
    let (_dir, db) = orders().await;
    assert_eq!(
        run(
            &db,
            "CREATE VIEW large AS SELECT id, amount FROM orders WHERE amount >= 20"
        )
        .await,
        "view large"
    );
    assert_eq!(
        query(&db, "SELECT * FROM large ORDER BY id").await,
        ["2|20", "3|30"]
    );
    assert_eq!(
        query(&db, "SELECT l.amount FROM large l WHERE l.id = 3").await,
        ["30"]
    );
    assert_eq!(
        query(&db, "SELECT large.id FROM large WHERE large.amount > 20").await,
        ["3"]
    );
    assert_eq!(
        query(&db, "SELECT sum(amount), count(*) FROM public.large").await,
        ["50|2"]
    );
    assert_eq!(query(&db, "SELECT count(*) FROM main.large").await, ["2"]);
    assert_eq!(
        query(&db, "SELECT count(*) FROM halocline.public.large").await,
        ["2"]
    );
    let joined = "SELECT o.id, c.city FROM large JOIN orders o USING (id) JOIN customers c ON c.name = o.customer \
                  ORDER BY o.id";
    assert_eq!(query(&db, joined).await, ["2|Paris", "3|London"]);
    assert_eq!(
        query(&db, "SELECT a.id, b.id FROM large a JOIN large b ON a.id < b.id").await,
        ["2|3"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT id FROM orders WHERE id NOT IN (SELECT id FROM large) ORDER BY id"
        )
        .await,
        ["1", "4"]
    );
    // It follows its table.
    run(&db, "INSERT INTO orders VALUES (5, 'Eve', 50)").await;
    assert_eq!(query(&db, "SELECT max(id) FROM large").await, ["5"]);
    assert_eq!(
        query(&db, "DESCRIBE large").await,
        ["id|Int32|YES", "amount|Int32|YES"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_can_be_named() {
    let (_dir, db) = orders().await;
    run(
        &db,
        "CREATE VIEW totals (who, \"Total\") AS SELECT customer, sum(amount) FROM orders GROUP BY customer",
    )
    .await;
    assert_eq!(
        query(
            &db,
            "SELECT who, \"Total\" FROM totals WHERE who IS NOT NULL ORDER BY who"
        )
        .await,
        ["Ada|40", "Bob|20"]
    );
    // Columns of equal names are made distinct, as in a derived table.
    run(
        &db,
        "CREATE VIEW twice AS SELECT id, id, id + 1, id + 1 FROM orders WHERE id = 1",
    )
    .await;
    assert_eq!(query(&db, "SELECT id_1 FROM twice").await, ["1"]);
    assert_eq!(query(&db, "SELECT * FROM twice").await, ["1|1|2|2"]);
    let text = error(&db, "CREATE VIEW v (a, b, c) AS SELECT id, amount FROM orders").await;
    assert!(text.contains("2 columns, and it names 3"), "{text}");
    let text = error(&db, "CREATE VIEW v (a, A) AS SELECT id, amount FROM orders").await;
    assert!(text.contains("named twice"), "{text}");
    run(&db, "CREATE VIEW \"My view\" AS SELECT 1 AS \"One\"").await;
    assert_eq!(query(&db, "SELECT \"One\" FROM \"My view\"").await, ["1"]);
    assert!(
        error(&db, "SELECT * FROM my_view")
            .await
            .contains("no table 'my_view'")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_around_a_view_do_not_change_it() {
    let (_dir, db) = orders().await;
    run(&db, "CREATE VIEW v AS SELECT count(*) AS n FROM orders").await;
    // A common table expression of the name of its table is another one.
    assert_eq!(
        query(&db, "WITH orders AS (SELECT 1) SELECT n FROM v").await,
        ["4"]
    );
    // One of its own name hides it.
    assert_eq!(
        query(&db, "WITH v AS (SELECT 7 AS n) SELECT n FROM v").await,
        ["7"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT (SELECT n FROM v) + c.amount FROM orders c WHERE c.id = 1"
        )
        .await,
        ["14"]
    );
    run(
        &db,
        "CREATE VIEW w AS WITH x AS (SELECT id FROM orders) SELECT max(id) AS m FROM x",
    )
    .await;
    assert_eq!(
        query(&db, "WITH x AS (SELECT 0 AS id) SELECT m FROM w").await,
        ["4"]
    );
    run(
        &db,
        "CREATE VIEW numbers AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r",
    )
    .await;
    assert_eq!(query(&db, "SELECT sum(n) FROM numbers").await, ["10"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_read_views() {
    let (_dir, db) = orders().await;
    run(
        &db,
        "CREATE VIEW a AS SELECT id, amount FROM orders WHERE amount > 10",
    )
    .await;
    run(&db, "CREATE VIEW b AS SELECT id FROM a WHERE id < 3").await;
    run(
        &db,
        "CREATE VIEW c AS SELECT a.id AS x, b.id AS y FROM a CROSS JOIN b",
    )
    .await;
    assert_eq!(query(&db, "SELECT * FROM c ORDER BY x").await, ["2|2", "3|2"]);
    for text in [
        "CREATE OR REPLACE VIEW a AS SELECT x AS id FROM c",
        "CREATE OR REPLACE VIEW a AS SELECT id, 1 AS amount FROM a",
    ] {
        let text = error(&db, text).await;
        assert!(text.contains("view a would read itself"), "{text}");
    }
    assert!(
        error(&db, "CREATE VIEW new AS SELECT * FROM new")
            .await
            .contains("no table 'new'")
    );
    run(&db, "CREATE OR REPLACE VIEW a AS SELECT 2 AS id, 0 AS amount").await;
    assert_eq!(query(&db, "SELECT * FROM c").await, ["2|2"]);
    // A long chain is refused when it gets too long, in whatever order names are looked up.
    run(&db, "CREATE VIEW v1 AS SELECT 1 AS a").await;
    for at in 2..=32 {
        run(
            &db,
            &format!("CREATE VIEW v{at} AS SELECT a + 1 AS a FROM v{}", at - 1),
        )
        .await;
    }
    assert_eq!(query(&db, "SELECT a FROM v32").await, ["32"]);
    let text = error(&db, "CREATE VIEW v33 AS SELECT a FROM v32").await;
    assert!(text.contains("more than 32 views"), "{text}");
    run(&db, "CREATE VIEW v0 AS SELECT 0 AS a").await;
    run(&db, "CREATE OR REPLACE VIEW v1 AS SELECT a FROM v0").await;
    assert_eq!(query(&db, "SELECT a FROM v31").await, ["30"]);
    for text in ["SELECT * FROM v32", "SELECT v32.a FROM v1, v30, v32"] {
        let text = error(&db, text).await;
        assert!(text.contains("view v32: more than 32 views"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_whose_table_has_changed_says_so() {
    let (_dir, db) = orders().await;
    run(&db, "CREATE VIEW v AS SELECT amount FROM orders").await;
    run(&db, "CREATE VIEW w AS SELECT * FROM v").await;
    run(&db, "CREATE VIEW other AS SELECT name FROM customers").await;
    run(&db, "DROP TABLE orders").await;
    let text = error(&db, "SELECT * FROM v").await;
    assert!(
        text.starts_with("view v: there is no table 'orders' in the pool; it has customers"),
        "{text}"
    );
    assert!(
        text.ends_with("replace it with CREATE OR REPLACE VIEW, or drop it"),
        "{text}"
    );
    let text = error(&db, "SELECT count(*) FROM w").await;
    assert!(
        text.starts_with("view w: view v: there is no table 'orders'"),
        "{text}"
    );
    // What does not read it goes on, and lists have all views.
    assert_eq!(query(&db, "SELECT count(*) FROM other").await, ["2"]);
    assert_eq!(
        query(&db, "SHOW TABLES").await,
        ["customers|table", "other|view", "v|view", "w|view"]
    );
    let columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2";
    assert_eq!(
        query(&db, columns).await,
        ["customers|city", "customers|name", "other|name"]
    );
    let views =
        "SELECT table_name, definition FROM information_schema.views WHERE definition IS NOT NULL ORDER BY 1";
    assert_eq!(
        query(&db, views).await,
        [
            "other|CREATE VIEW other AS\nSELECT name FROM customers",
            "v|CREATE VIEW v AS\nSELECT amount FROM orders",
            "w|CREATE VIEW w AS\nSELECT * FROM v"
        ]
    );
    // A common table expression of the same name is no use of the view.
    assert_eq!(query(&db, "WITH v AS (SELECT 5) SELECT * FROM v").await, ["5"]);
    // A new table of the name is read; one without the column is not.
    run(&db, "CREATE TABLE orders (amount text)").await;
    run(&db, "INSERT INTO orders VALUES ('many')").await;
    assert_eq!(query(&db, "SELECT * FROM w").await, ["many"]);
    run(&db, "ALTER TABLE orders RENAME COLUMN amount TO price").await;
    let text = error(&db, "SELECT * FROM v").await;
    assert!(text.starts_with("view v: No field named amount"), "{text}");
    run(&db, "CREATE OR REPLACE VIEW v AS SELECT * FROM orders").await;
    run(&db, "ALTER TABLE orders ADD COLUMN more int DEFAULT 1").await;
    assert_eq!(query(&db, "SELECT * FROM w").await, ["many|1"]);
    assert_eq!(run(&db, "DROP VIEW v, w").await, "dropped view v, w");
    assert!(error(&db, "SELECT * FROM v").await.contains("no table 'v'"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_and_a_table_do_not_share_a_name() {
    let (_dir, db) = orders().await;
    run(&db, "CREATE TABLE keyed (id int PRIMARY KEY)").await;
    run(&db, "CREATE VIEW v AS SELECT 1 AS id").await;
    for table in ["orders", "keyed"] {
        let text = error(&db, &format!("CREATE VIEW {table} AS SELECT 1")).await;
        assert!(
            text.contains(&format!("table '{table}' exists already")),
            "{text}"
        );
        let text = error(&db, &format!("DROP VIEW IF EXISTS {table}")).await;
        assert!(
            text.contains(&format!("'{table}' is a table, not a view")),
            "{text}"
        );
    }
    for text in [
        "CREATE TABLE v (a int)",
        "CREATE TABLE IF NOT EXISTS v (a int)",
        "CREATE OR REPLACE TABLE v (a int)",
        "CREATE TABLE v (a int PRIMARY KEY)",
        "CREATE TABLE v AS SELECT 1 AS a",
        "CREATE TABLE v (PRIMARY KEY (a)) AS SELECT 1 AS a",
        "ALTER TABLE orders RENAME TO v",
        "ALTER TABLE keyed RENAME TO v",
    ] {
        let said = error(&db, text).await;
        assert!(said.contains("view 'v' exists already"), "{text}: {said}");
    }
    for text in [
        "INSERT INTO v VALUES (1)",
        "INSERT INTO v SELECT * FROM orders",
        "UPDATE v SET id = 2",
        "DELETE FROM v",
        "TRUNCATE v",
        "DROP TABLE v",
        "CREATE INDEX i ON v (id)",
        "ALTER TABLE v ADD COLUMN a int",
        "ALTER TABLE v RENAME TO w",
        "VACUUM v",
    ] {
        let said = error(&db, text).await;
        assert!(said.contains("'v' is a view"), "{text}: {said}");
    }
    assert_eq!(query(&db, "SELECT * FROM v").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_are_replaced_and_dropped() {
    let (_dir, db) = orders().await;
    run(&db, "CREATE VIEW v AS SELECT 1 AS a").await;
    let text = error(&db, "CREATE VIEW v AS SELECT 2").await;
    assert!(text.contains("view 'v' exists already; drop it first"), "{text}");
    assert_eq!(
        run(&db, "CREATE VIEW IF NOT EXISTS v AS SELECT nothing FROM nowhere").await,
        "view v is there already"
    );
    run(&db, "CREATE OR REPLACE VIEW v AS SELECT 3 AS a").await;
    assert_eq!(query(&db, "SELECT a FROM v").await, ["3"]);
    // A statement that names one that is not there drops nothing.
    assert!(
        error(&db, "DROP VIEW v, w")
            .await
            .contains("there is no view 'w' in the pool; it has v")
    );
    assert_eq!(query(&db, "SELECT a FROM v").await, ["3"]);
    assert_eq!(run(&db, "DROP VIEW IF EXISTS v, w").await, "dropped view v");
    assert_eq!(run(&db, "DROP VIEW IF EXISTS v").await, "nothing to drop");
    for (text, reason) in [
        ("CREATE VIEW v AS SELECT x FROM orders", "No field named x"),
        ("CREATE VIEW v AS SELECT * FROM nowhere", "no table 'nowhere'"),
        (
            "CREATE VIEW v AS SELECT * FROM orders WHERE id = $1",
            "parameter $1: a view has no parameters",
        ),
        (
            "CREATE VIEW v AS INSERT INTO orders VALUES (1)",
            "SELECT after AS",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "this form of CREATE VIEW",
        ),
        (
            "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
            "this form of CREATE VIEW",
        ),
        ("CREATE VIEW v AS SELECT * FROM orders FOR UPDATE", "FOR UPDATE"),
    ] {
        let said = error(&db, text).await;
        assert!(said.contains(reason), "{text}: {said}");
    }
    let bound = db
        .sql_with("CREATE VIEW v AS SELECT 1", [ScalarValue::from(1)])
        .await;
    assert!(bound.is_err());
    assert!(error(&db, "SELECT * FROM v").await.contains("no table 'v'"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_have_views_of_their_own() {
    let (dir, db) = orders().await;
    let other = db.session();
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    run(&db, "BEGIN").await;
    run(&db, "CREATE VIEW v AS SELECT count(*) AS n FROM orders").await;
    run(&db, "CREATE TABLE fresh AS SELECT 1 AS a").await;
    run(&db, "CREATE VIEW f AS SELECT a FROM fresh").await;
    run(&db, "DELETE FROM orders WHERE id = 1").await;
    assert_eq!(query(&db, "SELECT n FROM v").await, ["3"]);
    assert_eq!(query(&db, "SELECT a FROM f").await, ["1"]);
    assert!(error(&other, "SELECT * FROM v").await.contains("no table 'v'"));
    // A failed statement takes back only itself.
    assert!(
        error(&db, "CREATE VIEW v AS SELECT 1")
            .await
            .contains("exists already")
    );
    assert!(
        error(&db, "CREATE VIEW g AS SELECT * FROM nowhere")
            .await
            .contains("nowhere")
    );
    run(&db, "ROLLBACK").await;
    assert!(error(&db, "SELECT * FROM v").await.contains("no table 'v'"));
    run(&db, "BEGIN").await;
    run(&db, "CREATE VIEW v AS SELECT count(*) AS n FROM orders").await;
    run(&db, "COMMIT").await;
    assert_eq!(query(&other, "SELECT n FROM v").await, ["4"]);
    assert_eq!(query(&reader, "SELECT n FROM v").await, ["4"]);
    run(&db, "BEGIN").await;
    run(&db, "DROP VIEW v").await;
    assert!(error(&db, "SELECT * FROM v").await.contains("no table 'v'"));
    assert_eq!(query(&other, "SELECT n FROM v").await, ["4"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, "SELECT n FROM v").await, ["4"]);
    let said = error(&reader, "CREATE VIEW w AS SELECT 1").await;
    assert!(said.contains("read-only"), "{said}");
    drop((db, other, reader));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, "SELECT n FROM v").await, ["4"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    let info = db.info().unwrap();
    assert_eq!(info.views.len(), 1);
    assert_eq!(
        info.views[0].statement,
        "CREATE VIEW v AS\nSELECT count(*) AS n FROM orders"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_follow_the_text_of_a_view() {
    let (_dir, db) = orders().await;
    let other = db.session();
    run(&db, "CREATE VIEW v AS SELECT id, amount FROM orders WHERE id < 3").await;
    let prepared = db.prepare("SELECT amount FROM v WHERE id = $1").await.unwrap();
    run(&db, "PREPARE p AS SELECT count(*) FROM v WHERE amount > $1").await;
    let texts = [
        "SELECT count(*) FROM v",
        "SELECT sum(v.amount) FROM v JOIN customers ON true",
        "SELECT id FROM v WHERE id = 2",
    ];
    for _ in 0..3 {
        assert_eq!(query(&db, texts[0]).await, ["2"]);
        assert_eq!(query(&db, texts[1]).await, ["60"]);
        assert_eq!(query(&db, texts[2]).await, ["2"]);
        assert_eq!(query(&db, "EXECUTE p (5)").await, ["2"]);
        let rows = prepared.execute([2]).await.unwrap().collect().await.unwrap();
        assert_eq!(super::support::lines(&rows), ["20"]);
    }
    run(
        &other,
        "CREATE OR REPLACE VIEW v AS SELECT id, amount * 100 AS amount FROM orders WHERE id = 3",
    )
    .await;
    for _ in 0..3 {
        assert_eq!(query(&db, texts[0]).await, ["1"]);
        assert_eq!(query(&db, texts[1]).await, ["6000"]);
        assert!(query(&db, texts[2]).await.is_empty());
        assert_eq!(query(&db, "EXECUTE p (5)").await, ["1"]);
        let rows = prepared.execute([3]).await.unwrap().collect().await.unwrap();
        assert_eq!(super::support::lines(&rows), ["3000"]);
    }
    // A table takes the place of the view, and a view that of a table.
    run(&other, "DROP VIEW v").await;
    run(&other, "CREATE TABLE v AS SELECT 2 AS id, 7 AS amount").await;
    for _ in 0..3 {
        assert_eq!(query(&db, texts[2]).await, ["2"]);
        assert_eq!(query(&db, texts[1]).await, ["14"]);
        assert_eq!(query(&db, "EXECUTE p (5)").await, ["1"]);
    }
    run(&other, "DROP TABLE v").await;
    run(
        &other,
        "CREATE VIEW v AS SELECT 2 AS id, 8 AS amount UNION ALL SELECT 2, 9",
    )
    .await;
    for _ in 0..3 {
        assert_eq!(query(&db, texts[2]).await, ["2", "2"]);
        assert_eq!(query(&db, texts[1]).await, ["34"]);
        assert_eq!(query(&db, "EXECUTE p (8)").await, ["1"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_views_belong_to_the_session() {
    let (dir, db) = orders().await;
    let other = db.session();
    let text = "SELECT count(*) FROM orders o JOIN customers c ON o.customer = c.name";
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["3"]);
        assert_eq!(query(&db, "SELECT id FROM orders WHERE id = 1").await, ["1"]);
    }
    run(&db, "CREATE VIEW counted AS SELECT count(*) AS n FROM orders").await;
    assert_eq!(
        run(
            &db,
            "CREATE TEMP VIEW orders AS SELECT 1 AS id, 'Ada' AS customer"
        )
        .await,
        "view orders for this session"
    );
    // It hides the table, but not from stored views and from those who write the schema.
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["1"]);
        assert_eq!(query(&db, "SELECT id FROM orders WHERE id = 1").await, ["1"]);
        assert!(query(&db, "SELECT id FROM orders WHERE id = 2").await.is_empty());
        assert_eq!(query(&db, "SELECT n FROM counted").await, ["4"]);
        assert_eq!(query(&db, "SELECT count(*) FROM main.orders").await, ["4"]);
        assert_eq!(query(&other, text).await, ["3"]);
    }
    run(
        &db,
        "CREATE TEMPORARY VIEW mine AS SELECT id FROM orders UNION ALL SELECT n FROM counted",
    )
    .await;
    assert_eq!(query(&db, "SELECT sum(id) FROM mine").await, ["5"]);
    let said = error(&db, "CREATE VIEW stored AS SELECT * FROM mine").await;
    assert!(said.contains("no table 'mine'"), "{said}");
    let said = error(&db, "CREATE OR REPLACE TEMP VIEW orders AS SELECT id FROM mine").await;
    assert!(
        said.contains("view orders would read itself; write main.orders"),
        "{said}"
    );
    let said = error(&db, "CREATE TEMP VIEW customers AS SELECT * FROM customers").await;
    assert!(said.contains("view customers would read itself"), "{said}");
    run(
        &db,
        "CREATE TEMP VIEW customers AS SELECT name FROM main.customers WHERE city = 'Paris'",
    )
    .await;
    assert_eq!(query(&db, "SELECT * FROM customers").await, ["Bob"]);
    assert_eq!(
        query(&db, "SHOW TABLES").await,
        ["counted|view", "customers|view", "mine|view", "orders|view"]
    );
    assert!(
        error(&other, "SELECT * FROM mine")
            .await
            .contains("no table 'mine'")
    );
    assert_eq!(
        run(&db, "DROP VIEW orders, customers").await,
        "dropped view orders, customers"
    );
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["3"]);
        assert!(
            error(&db, "DROP VIEW orders")
                .await
                .contains("'orders' is a table")
        );
    }
    let reader = reopen(&dir, &DatabaseOptions::default().with_read_only(true));
    run(&reader, "CREATE TEMP VIEW r AS SELECT count(*) AS n FROM counted").await;
    assert_eq!(query(&reader, "SELECT n FROM r").await, ["1"]);
    assert!(
        error(&reader.session(), "SELECT * FROM r")
            .await
            .contains("no table 'r'")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_read_tables_with_a_primary_key_and_files() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE k (id int PRIMARY KEY, v text)").await;
    run(&db, "INSERT INTO k VALUES (1, 'a'), (2, 'b')").await;
    run(&db, "CREATE VIEW v AS SELECT v, id FROM k WHERE id > 1").await;
    let file = dir.path().join("v.csv");
    query(&db, &format!("COPY v TO '{}'", file.display())).await;
    run(
        &db,
        &format!("CREATE VIEW f AS SELECT * FROM '{}'", file.display()),
    )
    .await;
    assert_eq!(
        query(&db, "SELECT * FROM v UNION ALL SELECT * FROM f").await,
        ["b|2", "b|2"]
    );
    run(
        &db,
        "UPDATE k SET v = (SELECT max(v) || '!' FROM v) WHERE id IN (SELECT id FROM v)",
    )
    .await;
    assert_eq!(query(&db, "SELECT v FROM v").await, ["b!"]);
    run(&db, "CREATE TABLE copied AS SELECT * FROM v").await;
    run(&db, "DELETE FROM copied WHERE id IN (SELECT id FROM v)").await;
    assert_eq!(query(&db, "SELECT count(*) FROM copied").await, ["0"]);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, "SELECT * FROM v").await, ["b!|2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statements_that_create_objects_are_shown() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (a int NOT NULL, b text DEFAULT 'x') WITH (sort = 'a')",
    )
    .await;
    run(&db, "CREATE INDEX i ON t (a)").await;
    run(&db, "CREATE TABLE k (id int, v text, PRIMARY KEY (id))").await;
    run(&db, "CREATE VIEW v (\"A\", b) AS SELECT a, b -- both\n FROM t;").await;
    run(&db, "CREATE TEMP VIEW w AS SELECT 1").await;
    assert_eq!(
        query(&db, "SHOW CREATE TABLE t").await,
        [
            "t|CREATE TABLE t (\n    a int NOT NULL,\n    b varchar DEFAULT 'x'\n) WITH (sort = 'a')",
            "t|CREATE INDEX i ON t USING elf (a) WITH (order = 'given')"
        ]
    );
    assert_eq!(
        query(&db, "SHOW CREATE TABLE k").await,
        ["k|CREATE TABLE k (\n    id int NOT NULL,\n    v varchar,\n    PRIMARY KEY (id)\n)"]
    );
    let view = query(&db, "SHOW CREATE VIEW v").await;
    assert_eq!(
        view,
        ["v|CREATE VIEW v (\"A\", b) AS\nSELECT a, b -- both\n FROM t"]
    );
    assert_eq!(
        query(&db, "SHOW CREATE VIEW w").await,
        ["w|CREATE TEMP VIEW w AS\nSELECT 1"]
    );
    run(&db, "DROP VIEW v").await;
    run(&db, view[0].strip_prefix("v|").unwrap()).await;
    assert_eq!(query(&db, "SHOW CREATE VIEW v").await, view);
    assert!(error(&db, "SHOW CREATE VIEW t").await.contains("'t' is a table"));
    assert!(error(&db, "SHOW CREATE TABLE v").await.contains("'v' is a view"));
    assert!(error(&db, "SHOW CREATE TABLE x").await.contains("no table 'x'"));
    assert!(error(&db, "SHOW CREATE VIEW x").await.contains("no view 'x'"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_information_schema_lists_views() {
    let (_dir, db) = orders().await;
    run(&db, "CREATE VIEW v AS SELECT id, customer FROM orders").await;
    run(&db, "CREATE TEMP VIEW w AS SELECT id + 1.5 AS x FROM v").await;
    let tables = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(
        query(&db, tables).await,
        ["customers|BASE TABLE", "orders|BASE TABLE", "v|VIEW", "w|VIEW"]
    );
    let columns =
        "SELECT column_name FROM information_schema.columns WHERE table_name IN ('v', 'w') ORDER BY 1";
    assert_eq!(query(&db, columns).await, ["customer", "id", "x"]);
    assert_eq!(query(&db, "SHOW COLUMNS FROM v").await.len(), 2);
    assert!(
        error(&db, "SHOW TABLES LIKE 'v'")
            .await
            .contains("an option of SHOW TABLES")
    );
    let read = "SELECT v.id FROM v WHERE EXISTS (SELECT 1 FROM information_schema.tables WHERE table_name = 'v') AND id = 1";
    assert_eq!(query(&db, read).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_statements_read_deep_views() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t AS SELECT 1 AS a").await;
    let deep = format!(
        "CREATE VIEW deep AS SELECT {}a{} AS b FROM t",
        "abs(".repeat(15),
        ")".repeat(15)
    );
    run(&db, &deep).await;
    let sum = vec!["a"; 1_500].join(" + ");
    run(&db, &format!("CREATE VIEW long AS SELECT {sum} AS b FROM t")).await;
    run(
        &db,
        "CREATE VIEW upper AS SELECT deep.b + long.b AS c FROM deep, long",
    )
    .await;
    run(&db, "PREPARE p AS SELECT c FROM upper WHERE c > $1").await;
    for _ in 0..3 {
        assert_eq!(query(&db, "SELECT c FROM upper").await, ["1501"]);
        assert_eq!(query(&db, "EXECUTE p (0)").await, ["1501"]);
    }
    assert_eq!(db.info().unwrap().views.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_listed_by_pragma() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (a int NOT NULL, \"B\" text DEFAULT 'x')").await;
    run(
        &db,
        "CREATE TABLE k (v decimal(10, 2), id bigint, PRIMARY KEY (id))",
    )
    .await;
    run(&db, "CREATE VIEW v AS SELECT a, a + 1 AS next FROM t").await;
    run(&db, "CREATE TEMP TABLE s (a date DEFAULT DATE '2026-01-02')").await;
    assert_eq!(
        query(&db, "PRAGMA table_info('t')").await,
        ["0|a|int|true|NULL|false", "1|B|varchar|false|x|false"]
    );
    assert_eq!(
        query(&db, "PRAGMA table_info('k')").await,
        ["0|v|decimal(10,2)|false|NULL|false", "1|id|bigint|true|NULL|true"]
    );
    let of_view = query(&db, "PRAGMA table_info('v')").await;
    assert_eq!(of_view.len(), 2);
    assert!(of_view[1].starts_with("1|next|bigint|"), "{of_view:?}");
    assert_eq!(
        query(&db, "PRAGMA table_info('s')").await,
        ["0|a|date|false|2026-01-02|false"]
    );
    assert_eq!(
        query(&db, "PRAGMA show_tables").await,
        query(&db, "SHOW TABLES").await
    );
    assert!(
        error(&db, "PRAGMA table_info('nothing')")
            .await
            .contains("no table 'nothing'")
    );
    assert!(
        error(&db, "PRAGMA threads = 4")
            .await
            .contains("PRAGMA threads is not supported")
    );
}

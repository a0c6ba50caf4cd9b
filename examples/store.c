/* A key-value store from C: single keys, a batch, a scan, a transaction, and SQL.
 *
 * cargo build --release -p halocline-capi
 * cc -Icrates/capi/include examples/store.c -Ltarget/release -lhalocline_c -o store
 * LD_LIBRARY_PATH=target/release ./store /tmp/example.pool
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "halocline.h"

#define BYTES(text) ((const uint8_t *)(text)), strlen(text)

static void check(enum hl_status status, const char *what) {
    if (status != HL_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, hl_error());
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "example.pool";
    struct hl_database *database;
    check(hl_create(path, &database), "create");

    struct hl_store_t *cities;
    check(hl_store(database, "cities", &cities), "store");
    check(hl_put(cities, BYTES("fr/paris"), BYTES("2103000")), "put");
    check(hl_put(cities, BYTES("it/rome"), BYTES("2748000")), "put");

    /* Both or none. */
    struct hl_batch *batch;
    check(hl_batch_new(&batch), "batch");
    check(hl_batch_put(batch, cities, BYTES("fr/lyon"), BYTES("520000")), "batch put");
    check(hl_batch_delete(batch, cities, BYTES("it/rome")), "batch delete");
    check(hl_write(database, batch), "write");
    hl_batch_close(batch);

    uint8_t *value;
    size_t value_len;
    if (hl_get(cities, BYTES("it/rome"), &value, &value_len) != HL_STATUS_NOT_FOUND) {
        fprintf(stderr, "it/rome is still there\n");
        return 1;
    }
    check(hl_get(cities, BYTES("fr/lyon"), &value, &value_len), "get");
    printf("fr/lyon: %.*s\n", (int)value_len, (const char *)value);
    hl_free(value, value_len);

    struct hl_scan_t *scan;
    const uint8_t *key, *found;
    size_t key_len, found_len;
    check(hl_scan(cities, BYTES("fr/"), BYTES("fr0"), false, &scan), "scan");
    while (hl_scan_next(scan, &key, &key_len, &found, &found_len) == HL_STATUS_OK)
        printf("%.*s = %.*s\n", (int)key_len, (const char *)key, (int)found_len, (const char *)found);
    hl_scan_close(scan);

    /* A transaction that loses against a write, and then wins. */
    for (int attempt = 0; attempt < 2; attempt++) {
        struct hl_transaction *transaction;
        check(hl_begin(database, &transaction), "begin");
        check(hl_transaction_get(transaction, cities, BYTES("fr/paris"), &value, &value_len), "read");
        hl_free(value, value_len);
        check(hl_transaction_put(transaction, cities, BYTES("fr/paris"), BYTES("2104000")), "change");
        if (attempt == 0)
            check(hl_put(cities, BYTES("fr/paris"), BYTES("2103001")), "put");
        enum hl_status status = hl_commit(transaction);
        printf("attempt %d: %s\n", attempt + 1, status == HL_STATUS_CONFLICT ? "conflict" : "committed");
        if (status == HL_STATUS_OK)
            break;
    }

    check(hl_sql(database, "CREATE TABLE t AS SELECT 17 AS a, 'x' AS b", NULL), "sql");
    check(hl_sql(database, "INSERT INTO t VALUES (18, 'y')", NULL), "sql");

    hl_store_close(cities);
    hl_close(database);
    return 0;
}

/* Null pointers, short buffers and handles closed in any order, under the address sanitizer: each call returns a status
 * and a message, and touches no byte that it was not given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "halocline.h"

static int failures;

static void expect(enum hl_status status, enum hl_status expected, const char *call) {
    if (status == expected && (status <= HL_STATUS_CONFLICT || strlen(hl_error()) > 0))
        return;
    fprintf(stderr, "%s: status %d instead of %d: %s\n", call, (int)status, (int)expected, hl_error());
    failures++;
}

#define OK(call) expect(call, HL_STATUS_OK, #call)
#define INVALID(call) expect(call, HL_STATUS_INVALID, #call)
#define NOT_FOUND(call) expect(call, HL_STATUS_NOT_FOUND, #call)

/* A copy whose end the sanitizer guards. */
static uint8_t *exactly(const char *text) {
    size_t len = strlen(text);
    uint8_t *bytes = malloc(len ? len : 1);
    memcpy(bytes, text, len);
    return bytes;
}

static void null_handles(void) {
    const uint8_t key[1] = {7};
    const uint8_t *read_key, *read_value;
    uint8_t *value;
    uint64_t number;
    size_t len, value_len;
    struct hl_scan_t *scan;
    struct hl_store_t *store;
    struct hl_transaction *transaction;
    struct hl_tree_t *tree;
    INVALID(hl_create(NULL, NULL));
    INVALID(hl_open(NULL, NULL));
    INVALID(hl_store(NULL, "s", &store));
    INVALID(hl_store_drop(NULL, "s"));
    INVALID(hl_store_len(NULL, &number));
    INVALID(hl_put(NULL, key, 1, key, 1));
    INVALID(hl_put_with_ttl(NULL, key, 1, key, 1, 5));
    INVALID(hl_delete(NULL, key, 1));
    INVALID(hl_get(NULL, key, 1, &value, &value_len));
    INVALID(hl_compare_and_swap(NULL, key, 1, key, 1, key, 1));
    INVALID(hl_batch_put(NULL, NULL, key, 1, key, 1));
    INVALID(hl_batch_delete(NULL, NULL, key, 1));
    INVALID(hl_batch_clear(NULL));
    INVALID(hl_write(NULL, NULL));
    INVALID(hl_scan(NULL, NULL, 0, NULL, 0, false, &scan));
    INVALID(hl_scan_next(NULL, &read_key, &len, &read_value, &value_len));
    INVALID(hl_sql(NULL, "SELECT 1", NULL));
    INVALID(hl_begin(NULL, &transaction));
    INVALID(hl_transaction_get(NULL, NULL, key, 1, &value, &value_len));
    INVALID(hl_transaction_put(NULL, NULL, key, 1, key, 1));
    INVALID(hl_transaction_delete(NULL, NULL, key, 1));
    INVALID(hl_commit(NULL));
    INVALID(hl_tree_create(NULL, "t", "lb", &tree));
    INVALID(hl_tree(NULL, "t", &tree));
    INVALID(hl_tree_insert(NULL, 1, 1));
    INVALID(hl_tree_update(NULL, 1, 1));
    INVALID(hl_tree_remove(NULL, 1));
    INVALID(hl_tree_get(NULL, 1, &number));
    INVALID(hl_tree_scan(NULL, 1, 1, &number, &len));
    hl_batch_close(NULL);
    hl_close(NULL);
    hl_scan_close(NULL);
    hl_store_close(NULL);
    hl_rollback(NULL);
    hl_tree_close(NULL);
    hl_free(NULL, 0);
}

static void null_places(struct hl_database *database, struct hl_store_t *store) {
    uint8_t *value;
    size_t len;
    INVALID(hl_store(database, NULL, NULL));
    INVALID(hl_store(database, "\xff", NULL));
    INVALID(hl_store_len(store, NULL));
    INVALID(hl_put(store, NULL, 3, NULL, 0));
    INVALID(hl_put(store, NULL, 0, NULL, 9));
    INVALID(hl_get(store, NULL, 3, &value, &len));
    INVALID(hl_get(store, NULL, 0, NULL, &len));
    INVALID(hl_get(store, NULL, 0, &value, NULL));
    INVALID(hl_batch_new(NULL));
    INVALID(hl_scan(store, NULL, 4, NULL, 0, false, NULL));
    INVALID(hl_begin(database, NULL));
    INVALID(hl_tree_create(database, "t", "no kind", NULL));
    INVALID(hl_sql(database, NULL, NULL));
}

/* Keys and values of exactly the length that is passed, up to the limits and beyond. */
static void lengths(struct hl_store_t *store) {
    static const size_t keys[] = {0, 1, 7, 8, 9, 1024}, values[] = {0, 1, 63, 64, 65, 4096, 70000, 1 << 20};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            uint8_t *key = malloc(keys[i] ? keys[i] : 1), *value = malloc(values[j] ? values[j] : 1), *found;
            size_t len;
            memset(key, 'k', keys[i]);
            memset(value, (int)j, values[j]);
            OK(hl_put(store, key, keys[i], value, values[j]));
            OK(hl_get(store, key, keys[i], &found, &len));
            if (len != values[j] || memcmp(found, value, len) != 0) {
                fprintf(stderr, "a key of %zu bytes has another value of %zu bytes\n", keys[i], len);
                failures++;
            }
            hl_free(found, len);
            OK(hl_delete(store, key, keys[i]));
            NOT_FOUND(hl_get(store, key, keys[i], &found, &len));
            free(key);
            free(value);
        }
    }
    uint8_t *long_key = calloc(1, 1025), *long_value = calloc(1, (1 << 20) + 1);
    INVALID(hl_put(store, long_key, 1025, long_key, 1));
    INVALID(hl_put(store, long_key, 1, long_value, (1 << 20) + 1));
    free(long_key);
    free(long_value);
}

static void orders(struct hl_database *database, struct hl_store_t *store) {
    const uint8_t *key, *value;
    size_t key_len, value_len, count;
    uint64_t entries[4];
    struct hl_scan_t *scan;
    struct hl_batch *batch;
    struct hl_transaction *transaction;
    struct hl_tree_t *tree;
    uint8_t *first = exactly("first"), *second = exactly("second");
    OK(hl_put(store, first, 5, second, 6));
    OK(hl_batch_new(&batch));
    OK(hl_batch_put(batch, store, second, 6, first, 5));
    OK(hl_begin(database, &transaction));
    OK(hl_transaction_put(transaction, store, second, 6, second, 6));
    OK(hl_scan(store, NULL, 0, NULL, 0, true, &scan));
    OK(hl_tree_create(database, "tree", "lb", &tree));
    OK(hl_tree_insert(tree, 1, 10));
    OK(hl_tree_insert(tree, 2, 20));
    /* Room for two entries, of which one is asked for. */
    OK(hl_tree_scan(tree, 0, 1, entries, &count));
    OK(hl_tree_scan(tree, 0, 2, entries, &count));
    OK(hl_write(database, batch));
    /* What is open keeps what it needs. */
    hl_close(database);
    hl_store_close(store);
    OK(hl_scan_next(scan, &key, &key_len, &value, &value_len));
    if (key_len != 5 || memcmp(key, first, 5) != 0 || value_len != 6 || memcmp(value, second, 6) != 0)
        expect(HL_STATUS_FAILED, HL_STATUS_OK, "the scan sees other pairs");
    NOT_FOUND(hl_scan_next(scan, &key, &key_len, &value, &value_len));
    NOT_FOUND(hl_scan_next(scan, &key, &key_len, &value, &value_len));
    hl_rollback(transaction);
    hl_batch_close(batch);
    hl_tree_close(tree);
    hl_scan_close(scan);
    free(first);
    free(second);
}

int main(int argc, char **argv) {
    struct hl_database *database = NULL;
    struct hl_store_t *store = NULL;
    if (argc != 2)
        return 2;
    null_handles();
    OK(hl_create(argv[1], &database));
    OK(hl_store(database, "s", &store));
    null_places(database, store);
    lengths(store);
    orders(database, store);
    return failures != 0;
}

/* The C interface of Halocline.
 *
 * Every function returns a status unless it cannot fail; after an error, hl_error() describes it. Handles are opaque and
 * are closed by the caller, in any order. Unless stated otherwise several threads may use a handle at once.
 *
 * What a caller promises: pointers are null or valid for the length that goes with them; texts end with a zero byte; a
 * handle is not used after it was closed. Null pointers where something is needed are reported, as are bytes that are
 * too long and texts that are not UTF-8.
 *
 * Written by a program from the sources of the crate halocline-capi.
 */

#ifndef HALOCLINE_H
#define HALOCLINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The Arrow C stream interface; see the Arrow specification. */
struct ArrowArrayStream;

/**
 * The result of a call.
 */
typedef enum hl_status {
  /**
   * The call did what it should.
   */
  HL_STATUS_OK = 0,
  /**
   * There is no such key, or a scan has ended. No error: `hl_error` stays as it is.
   */
  HL_STATUS_NOT_FOUND = 1,
  /**
   * The condition of `hl_compare_and_swap` does not hold, or another transaction changed what this one
   * depends on: run it again.
   */
  HL_STATUS_CONFLICT = 2,
  /**
   * An argument is null, too long, not UTF-8, or of another database.
   */
  HL_STATUS_INVALID = 3,
  /**
   * Another process has the pool or its stores open, or writes them.
   */
  HL_STATUS_BUSY = 4,
  /**
   * Durable bytes are not what was written.
   */
  HL_STATUS_DAMAGED = 5,
  /**
   * There is no such file, store or table, or the system refused an operation.
   */
  HL_STATUS_FAILED = 6,
  /**
   * A defect of the library.
   */
  HL_STATUS_PANIC = 7,
} hl_status;

/**
 * Writes that take effect together. One thread at a time may use it.
 */
typedef struct hl_batch hl_batch;

/**
 * An open pool.
 */
typedef struct hl_database hl_database;

/**
 * A scan. One thread at a time may use it.
 */
typedef struct hl_scan_t hl_scan_t;

/**
 * An open store.
 */
typedef struct hl_store_t hl_store_t;

/**
 * A serialisable transaction over any stores of a pool. One thread at a time may use it.
 */
typedef struct hl_transaction hl_transaction;

/**
 * An open tree.
 */
typedef struct hl_tree_t hl_tree_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes an empty batch.
 */
enum hl_status hl_batch_new(struct hl_batch **out);

/**
 * Adds a write of a key to a batch.
 */
enum hl_status hl_batch_put(struct hl_batch *batch,
                            const struct hl_store_t *store,
                            const uint8_t *key,
                            size_t key_len,
                            const uint8_t *value,
                            size_t value_len);

/**
 * Adds a deletion of a key to a batch.
 */
enum hl_status hl_batch_delete(struct hl_batch *batch,
                               const struct hl_store_t *store,
                               const uint8_t *key,
                               size_t key_len);

/**
 * Removes all writes from a batch.
 */
enum hl_status hl_batch_clear(struct hl_batch *batch);

/**
 * Makes all writes of a batch durable together. The batch is empty afterwards, unless this fails.
 */
enum hl_status hl_write(const struct hl_database *database, struct hl_batch *batch);

/**
 * Closes a batch; null is ignored.
 */
void hl_batch_close(struct hl_batch *batch);

/**
 * Creates a pool, which must not exist, and opens it. `path` is UTF-8.
 */
enum hl_status hl_create(const char *path, struct hl_database **out);

/**
 * Opens a pool, which must exist. `path` is UTF-8.
 */
enum hl_status hl_open(const char *path, struct hl_database **out);

/**
 * Closes a pool; null is ignored. Stores, scans, transactions and streams of it stay valid, and the file
 * stays open as long as one of them is.
 */
void hl_close(struct hl_database *database);

/**
 * Returns the version of the library.
 */
const char *hl_version(void);

/**
 * Scans the keys from `from` on and below `to`, as of now; a null pointer leaves a side open. With `reverse`
 * from the end.
 */
enum hl_status hl_scan(const struct hl_store_t *store,
                       const uint8_t *from,
                       size_t from_len,
                       const uint8_t *to,
                       size_t to_len,
                       bool reverse,
                       struct hl_scan_t **out);

/**
 * Sets key and value of the next pair, which stay valid until the next call for this scan.
 * `HL_STATUS_NOT_FOUND` at the end.
 */
enum hl_status hl_scan_next(struct hl_scan_t *scan,
                            const uint8_t **key,
                            size_t *key_len,
                            const uint8_t **value,
                            size_t *value_len);

/**
 * Closes a scan; null is ignored.
 */
void hl_scan_close(struct hl_scan_t *scan);

/**
 * Runs a statement. Its rows arrive through `out`, an `ArrowArrayStream` of the Arrow C stream interface
 * that the caller releases; a statement without rows has a stream without columns. With a null `out`, the
 * statement is run to its end and its rows are dropped.
 */
enum hl_status hl_sql(const struct hl_database *database,
                      const char *statement,
                      struct ArrowArrayStream *out);

/**
 * Returns the text of the last error of the calling thread, valid until its next call.
 */
const char *hl_error(void);

/**
 * Opens the store of a name, which is created durably if there is none.
 */
enum hl_status hl_store(const struct hl_database *database, const char *name, struct hl_store_t **out);

/**
 * Removes the store of a name with all its keys.
 */
enum hl_status hl_store_drop(const struct hl_database *database, const char *name);

/**
 * Closes a store; null is ignored.
 */
void hl_store_close(struct hl_store_t *store);

/**
 * Sets the number of keys.
 */
enum hl_status hl_store_len(const struct hl_store_t *store, uint64_t *out);

/**
 * Sets the value of a key, durably.
 */
enum hl_status hl_put(const struct hl_store_t *store,
                      const uint8_t *key,
                      size_t key_len,
                      const uint8_t *value,
                      size_t value_len);

/**
 * Sets the value of a key, durably; it expires after `ttl_ms` milliseconds.
 */
enum hl_status hl_put_with_ttl(const struct hl_store_t *store,
                               const uint8_t *key,
                               size_t key_len,
                               const uint8_t *value,
                               size_t value_len,
                               uint64_t ttl_ms);

/**
 * Deletes a key, if it is there, durably.
 */
enum hl_status hl_delete(const struct hl_store_t *store, const uint8_t *key, size_t key_len);

/**
 * Sets the value of a key. The caller frees it with `hl_free`. `HL_STATUS_NOT_FOUND` without a value.
 */
enum hl_status hl_get(const struct hl_store_t *store,
                      const uint8_t *key,
                      size_t key_len,
                      uint8_t **value,
                      size_t *value_len);

/**
 * Replaces the value of a key by `value` if it is `expected`. A null `expected` stands for no value; a null
 * `value` deletes the key. `HL_STATUS_CONFLICT` if it is not.
 */
enum hl_status hl_compare_and_swap(const struct hl_store_t *store,
                                   const uint8_t *key,
                                   size_t key_len,
                                   const uint8_t *expected,
                                   size_t expected_len,
                                   const uint8_t *value,
                                   size_t value_len);

/**
 * Frees a value that `hl_get` or `hl_transaction_get` returned; null is ignored.
 */
void hl_free(uint8_t *value, size_t value_len);

/**
 * Begins a transaction.
 */
enum hl_status hl_begin(const struct hl_database *database, struct hl_transaction **out);

/**
 * Sets the value of a key as the transaction sees it. The caller frees it with `hl_free`.
 * `HL_STATUS_NOT_FOUND` without a value.
 */
enum hl_status hl_transaction_get(struct hl_transaction *transaction,
                                  const struct hl_store_t *store,
                                  const uint8_t *key,
                                  size_t key_len,
                                  uint8_t **value,
                                  size_t *value_len);

/**
 * Sets the value of a key in a transaction.
 */
enum hl_status hl_transaction_put(struct hl_transaction *transaction,
                                  const struct hl_store_t *store,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const uint8_t *value,
                                  size_t value_len);

/**
 * Deletes a key in a transaction.
 */
enum hl_status hl_transaction_delete(struct hl_transaction *transaction,
                                     const struct hl_store_t *store,
                                     const uint8_t *key,
                                     size_t key_len);

/**
 * Makes all writes of a transaction durable together, and closes it in any case. `HL_STATUS_CONFLICT` if
 * another one changed what it depends on: nothing was written.
 */
enum hl_status hl_commit(struct hl_transaction *transaction);

/**
 * Discards a transaction and closes it; null is ignored.
 */
void hl_rollback(struct hl_transaction *transaction);

/**
 * Creates an empty tree and opens it. `kind` is `lb`, `lb2`, `lb4`, `fp`, `wb` or `fast-fair`.
 */
enum hl_status hl_tree_create(const struct hl_database *database,
                              const char *name,
                              const char *kind,
                              struct hl_tree_t **out);

/**
 * Opens a tree that exists.
 */
enum hl_status hl_tree(const struct hl_database *database, const char *name, struct hl_tree_t **out);

/**
 * Closes a tree; null is ignored.
 */
void hl_tree_close(struct hl_tree_t *tree);

/**
 * Adds an entry. `HL_STATUS_CONFLICT` if the key is there; its value stays.
 */
enum hl_status hl_tree_insert(const struct hl_tree_t *tree, uint64_t key, uint64_t value);

/**
 * Replaces the value of an entry. `HL_STATUS_NOT_FOUND` if the key is not there.
 */
enum hl_status hl_tree_update(const struct hl_tree_t *tree, uint64_t key, uint64_t value);

/**
 * Removes an entry. `HL_STATUS_NOT_FOUND` if the key is not there.
 */
enum hl_status hl_tree_remove(const struct hl_tree_t *tree, uint64_t key);

/**
 * Sets the value of a key. `HL_STATUS_NOT_FOUND` if the key is not there.
 */
enum hl_status hl_tree_get(const struct hl_tree_t *tree, uint64_t key, uint64_t *value);

/**
 * Writes up to `most` entries from a key on to `entries`, as key, value, key, value …, and sets their
 * number. `entries` has room for `2 * most` numbers.
 */
enum hl_status hl_tree_scan(const struct hl_tree_t *tree,
                            uint64_t from,
                            size_t most,
                            uint64_t *entries,
                            size_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HALOCLINE_H */

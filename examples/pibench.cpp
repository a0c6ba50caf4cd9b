/* A wrapper for PiBench (https://github.com/sfu-dis/pibench) that drives the ordered trees through the C interface.
 *
 * PIBENCH is a checkout of PiBench, built with CMake:
 *   cargo build --release -p halocline-capi
 *   c++ -O2 -shared -fPIC -IPIBENCH/include -Icrates/capi/include examples/pibench.cpp \
 *       -Ltarget/release -lhalocline_c -Wl,-rpath,$PWD/target/release -o libhalocline_pibench.so
 *   HALOCLINE_TREE=lb PIBENCH/build/src/PiBench ./libhalocline_pibench.so -n 10000000 -p 10000000 -r 1 -t 2 --pcm=false \
 *       --key_size 8 --value_size 8 --pool_path /dev/shm/pibench.pool
 *
 * HALOCLINE_TREE is lb, lb2, lb4, fp, wb or fast-fair.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "halocline.h"
#include "tree_api.hpp"

namespace {

void check(hl_status status) {
    if (status != HL_STATUS_OK)
        throw std::runtime_error(hl_error());
}

// Returns true for OK and false for the other answer; anything else is an error.
bool is_ok(hl_status status, hl_status other) {
    if (status != other)
        check(status);
    return status == HL_STATUS_OK;
}

std::uint64_t number(const char *bytes) {
    std::uint64_t number;
    std::memcpy(&number, bytes, sizeof number);
    return number;
}

class halocline_tree : public tree_api {
  public:
    explicit halocline_tree(const tree_options_t &options) {
        if (options.key_size != 8 || options.value_size != 8)
            throw std::runtime_error("keys and values of the trees have 8 bytes: use --key_size 8 --value_size 8");
        const std::string path = options.pool_path.empty() ? "/dev/shm/pibench.pool" : options.pool_path;
        const char *kind = std::getenv("HALOCLINE_TREE");
        std::remove(path.c_str());
        check(hl_create(path.c_str(), &database));
        check(hl_tree_create(database, "pibench", kind ? kind : "lb", &tree));
    }

    ~halocline_tree() override {
        hl_tree_close(tree);
        hl_close(database);
    }

    bool find(const char *key, size_t, char *value_out) override {
        std::uint64_t value;
        if (!is_ok(hl_tree_get(tree, number(key), &value), HL_STATUS_NOT_FOUND))
            return false;
        std::memcpy(value_out, &value, sizeof value);
        return true;
    }

    bool insert(const char *key, size_t, const char *value, size_t) override {
        return is_ok(hl_tree_insert(tree, number(key), number(value)), HL_STATUS_CONFLICT);
    }

    bool update(const char *key, size_t, const char *value, size_t) override {
        return is_ok(hl_tree_update(tree, number(key), number(value)), HL_STATUS_NOT_FOUND);
    }

    bool remove(const char *key, size_t) override {
        return is_ok(hl_tree_remove(tree, number(key)), HL_STATUS_NOT_FOUND);
    }

    int scan(const char *key, size_t, int scan_sz, char *&values_out) override {
        static thread_local std::vector<std::uint64_t> entries;
        entries.resize(2 * static_cast<size_t>(scan_sz));
        size_t count = 0;
        check(hl_tree_scan(tree, number(key), static_cast<size_t>(scan_sz), entries.data(), &count));
        values_out = reinterpret_cast<char *>(entries.data());
        return static_cast<int>(count);
    }

  private:
    hl_database *database = nullptr;
    hl_tree_t *tree = nullptr;
};

} // namespace

extern "C" tree_api *create_tree(const tree_options_t &options) { return new halocline_tree(options); }

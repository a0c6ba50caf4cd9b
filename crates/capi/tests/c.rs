//! The example in C and a program of wrong calls are compiled and run with the address sanitizer, and the
//! wrapper for PiBench with a stand-in for PiBench.

#![allow(clippy::print_stdout, reason = "a test says when a tool is missing")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory with the shared library, which was built for this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program with the header and the shared library. Fails with the compiler's messages.
fn compile(compiler: &str, sources: &[&Path], program: &Path, flags: &[&str]) {
    let libraries = libraries();
    let output = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-I"])
        .arg(root().join("crates/capi/include"))
        .args(sources)
        .arg("-L")
        .arg(&libraries)
        .arg("-lhalocline_c")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .arg("-o")
        .arg(program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be run ({error}); install a C compiler"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn pkg_config_has_the_flags() {
    let prefix = tempfile::tempdir().unwrap();
    let template = std::fs::read_to_string(root().join("crates/capi/halocline.pc.in")).unwrap();
    let shown = prefix.path().display().to_string();
    let description = template
        .replace("@PREFIX@", &shown)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    assert!(!description.contains('@'), "{description}");
    std::fs::write(prefix.path().join("halocline.pc"), description).unwrap();
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "--print-errors", "halocline"])
        .env("PKG_CONFIG_PATH", prefix.path())
        .output();
    let Ok(output) = output else {
        println!("pkg-config is not installed: its file was not read");
        return;
    };
    let flags = String::from_utf8_lossy(&output.stdout);
    let expected = format!("-I{shown}/include -L{shown}/lib -lhalocline_c");
    assert_eq!(
        flags.trim(),
        expected,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_example_runs() {
    let directory = tempfile::tempdir().unwrap();
    for (name, flags) in [
        ("plain", &[][..]),
        ("sanitized", &["-fsanitize=address,undefined"][..]),
    ] {
        let program = directory.path().join(name);
        compile("cc", &[&root().join("examples/store.c")], &program, flags);
        let output = Command::new(&program)
            .arg(directory.path().join(format!("{name}.pool")))
            // What the library keeps for the life of the process is no leak.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .output()
            .unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{name}: {out}{err}");
        assert_eq!(
            out,
            "fr/lyon: 520000\nfr/lyon = 520000\nfr/paris = 2103000\nattempt 1: conflict\nattempt 2: committed\n"
        );
    }
}

/// The interface between PiBench and its wrappers.
const TREE_API: &str = "
#pragma once
#include <cstddef>
#include <string>
struct tree_options_t {
    size_t key_size = 8, value_size = 8;
    std::string pool_path;
    size_t pool_size = 0, num_threads = 1;
};
class tree_api;
extern \"C\" tree_api *create_tree(const tree_options_t &options);
class tree_api {
  public:
    virtual ~tree_api() {}
    virtual bool find(const char *key, size_t key_sz, char *value_out) = 0;
    virtual bool insert(const char *key, size_t key_sz, const char *value, size_t value_sz) = 0;
    virtual bool update(const char *key, size_t key_sz, const char *value, size_t value_sz) = 0;
    virtual bool remove(const char *key, size_t key_sz) = 0;
    virtual int scan(const char *key, size_t key_sz, int scan_sz, char *&values_out) = 0;
};
";

/// A few operations as PiBench calls them.
const DRIVER: &str = "
#include <cassert>
#include <cstdint>
#include <cstdio>
#include \"tree_api.hpp\"
int main(int, char **argv) {
    tree_options_t options;
    options.pool_path = argv[1];
    tree_api *tree = create_tree(options);
    auto bytes = [](const uint64_t &number) { return reinterpret_cast<const char *>(&number); };
    for (uint64_t key = 0; key < 1000; key++)
        if (!tree->insert(bytes(key), 8, bytes(key), 8)) return 1;
    uint64_t key = 7, value = 70, found = 0;
    if (tree->insert(bytes(key), 8, bytes(value), 8) || !tree->update(bytes(key), 8, bytes(value), 8)) return 2;
    if (!tree->find(bytes(key), 8, reinterpret_cast<char *>(&found)) || found != 70) return 3;
    if (!tree->remove(bytes(key), 8) || tree->remove(bytes(key), 8)) return 4;
    if (tree->find(bytes(key), 8, reinterpret_cast<char *>(&found))) return 5;
    char *entries;
    if (tree->scan(bytes(key), 8, 10, entries) != 10 || *reinterpret_cast<uint64_t *>(entries) != 8) return 6;
    delete tree;
    return 0;
}
";

#[test]
fn wrong_calls_touch_nothing_they_were_not_given() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("hostile");
    let source = root().join("crates/capi/tests/c/hostile.c");
    compile("cc", &[&source], &program, &["-fsanitize=address,undefined"]);
    let output = Command::new(&program)
        .arg(directory.path().join("p.pool"))
        // What the library keeps for the life of the process is no leak.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_wrapper_for_pibench_drives_each_tree() {
    let directory = tempfile::tempdir().unwrap();
    let driver = directory.path().join("driver.cpp");
    std::fs::write(directory.path().join("tree_api.hpp"), TREE_API).unwrap();
    std::fs::write(&driver, DRIVER).unwrap();
    let program = directory.path().join("driver");
    let include = format!("-I{}", directory.path().display());
    let wrapper = root().join("examples/pibench.cpp");
    compile("c++", &[&driver, &wrapper], &program, &["-std=c++17", &include]);
    for kind in ["lb", "lb2", "lb4", "fp", "wb", "fast-fair"] {
        let pool = directory.path().join(format!("{kind}.pool"));
        let output = Command::new(&program)
            .arg(pool)
            .env("HALOCLINE_TREE", kind)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {} {err}", output.status);
    }
}

//! The example in C is compiled and run, also with the address sanitizer.

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
fn compile(compiler: &str, source: &Path, program: &Path, flags: &[&str]) {
    let libraries = libraries();
    let output = Command::new(compiler)
        .args(flags)
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-I"])
        .arg(root().join("crates/capi/include"))
        .arg(source)
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
fn the_example_runs() {
    let directory = tempfile::tempdir().unwrap();
    for (name, flags) in [
        ("plain", &[][..]),
        ("sanitized", &["-fsanitize=address,undefined"][..]),
    ] {
        let program = directory.path().join(name);
        compile("cc", &root().join("examples/store.c"), &program, flags);
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

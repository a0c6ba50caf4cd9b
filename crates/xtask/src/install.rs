//! Installing the C interface: libraries, header and pkg-config file.

use std::fs;
use std::path::Path;

use crate::cargo;

/// Builds the C interface and copies it to `lib` and `include` under a prefix.
pub(crate) fn install_c(root: &Path, arguments: &[String]) -> Result<(), String> {
    let [prefix] = arguments else {
        return Err("`cargo xtask install-c PREFIX` takes one directory, as /usr/local".to_owned());
    };
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{prefix}: {error}"))?;
    let build = ["build", "--release", "--locked", "--package", "halocline-capi"];
    cargo("C interface", &build, &[])?;
    let template = read(&root.join("crates/capi/halocline.pc.in"))?;
    let description = template
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let (libraries, headers) = (prefix.join("lib"), prefix.join("include"));
    for directory in [&libraries.join("pkgconfig"), &headers] {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let built = root.join("target/release");
    let names = ["libhalocline_c.a", "libhalocline_c.so", "libhalocline_c.dylib"];
    for name in names.into_iter().filter(|name| built.join(name).exists()) {
        copy(&built.join(name), &libraries.join(name))?;
    }
    copy(
        &root.join("crates/capi/include/halocline.h"),
        &headers.join("halocline.h"),
    )?;
    let file = libraries.join("pkgconfig/halocline.pc");
    fs::write(&file, description).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("installed in {}", prefix.display());
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

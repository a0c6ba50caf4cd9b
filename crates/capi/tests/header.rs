//! The header declares what the crate defines.

use std::path::Path;

const HEAD: &str = "\
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
 */";

#[test]
fn the_header_is_current() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(HEAD.to_owned()),
        include_guard: Some("HALOCLINE_H".to_owned()),
        cpp_compat: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 110,
        usize_is_size_t: true,
        ..cbindgen::Config::default()
    };
    config.after_includes = Some(
        "\n/* The Arrow C stream interface; see the Arrow specification. */\nstruct ArrowArrayStream;"
            .to_owned(),
    );
    config.enumeration.rename_variants = cbindgen::RenameRule::QualifiedScreamingSnakeCase;
    config.export.rename = [
        ("FFI_ArrowArrayStream", "struct ArrowArrayStream"),
        ("HlStatus", "hl_status"),
        ("HlDatabase", "hl_database"),
        ("HlStore", "hl_store_t"),
        ("HlBatch", "hl_batch"),
        ("HlScan", "hl_scan_t"),
        ("HlTransaction", "hl_transaction"),
        ("HlTree", "hl_tree_t"),
    ]
    .map(|(from, to)| (from.to_owned(), to.to_owned()))
    .into();
    let sources = [
        "batch",
        "database",
        "scan",
        "sql",
        "status",
        "store",
        "transaction",
        "tree",
    ];
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(here.join(format!("src/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();
    let path = here.join("include/halocline.h");
    if std::env::var_os("HALOCLINE_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &header).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        header == recorded,
        "{} is not what the sources say; write it anew with HALOCLINE_UPDATE_HEADER=1",
        path.display()
    );
}

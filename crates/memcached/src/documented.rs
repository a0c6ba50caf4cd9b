//! Comparison of structures with the tables of `docs/format/stores.md`.

/// The document.
pub(crate) const FORMAT: &str = include_str!("../../../docs/format/stores.md");

/// Asserts that the table under a heading of the document has these offsets, sizes and names of fields.
pub(crate) fn assert_fields(heading: &str, fields: &[(usize, usize, &str)]) {
    let (_, section) = FORMAT.split_once(&format!("\n{heading}\n")).unwrap();
    let rows: Vec<String> = section
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| row.split('|').take(4).collect())
        .collect();
    let fields = fields.iter();
    let expected: Vec<_> = fields
        .map(|(offset, size, name)| format!(" {offset}  {size}  `{name}` "))
        .collect();
    assert_eq!(rows, expected, "{heading}");
}

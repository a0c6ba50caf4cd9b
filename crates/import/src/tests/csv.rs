//! CSV files: values stay what they are, and dialects are found.

use super::*;

/// Imports a CSV text and returns its columns as `name type`, and its rows as texts with `∅` for NULL.
fn shown(text: &str, options: &ImportOptions) -> (Vec<String>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let batch = read_all("t", &[write(dir.path(), "a.csv", text)], options).unwrap();
    let columns = batch
        .schema()
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), sql_name(field.data_type())))
        .collect();
    let format = arrow_cast::display::FormatOptions::default()
        .with_null("∅")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let row = |row| {
        let value = |column| {
            arrow_cast::display::ArrayFormatter::try_new(column, &format)
                .unwrap()
                .value(row)
                .to_string()
        };
        batch
            .columns()
            .iter()
            .map(|column| value(column.as_ref()))
            .collect::<Vec<_>>()
            .join("|")
    };
    (columns, (0..batch.num_rows()).map(row).collect())
}

fn shown_by_default(text: &str) -> (Vec<String>, Vec<String>) {
    shown(text, &ImportOptions::default())
}

#[test]
fn values_that_would_change_stay_text() {
    for value in [
        "02139",
        "+15551234",
        "\"030001\"",
        "1e3",
        " 7",
        "-0",
        "TRUE",
        "2024-1-5",
        "2024-01-05T10:00:00",
        "NaN",
        "0x10",
        "1_000",
    ] {
        let (columns, rows) = shown_by_default(&format!("id,v\n1,{value}\n"));
        assert_eq!(columns, ["id bigint", "v varchar"], "{value}");
        assert_eq!(rows, [format!("1|{}", value.trim_matches('"'))]);
    }
    // One such value anywhere makes the column text, and the others keep their form.
    let (columns, rows) = shown_by_default("id,v\n1,1.50\n2,2.5\n3,07\n");
    assert_eq!(columns, ["id bigint", "v varchar"]);
    assert_eq!(rows, ["1|1.50", "2|2.5", "3|07"]);
}

#[test]
fn values_that_print_the_same_have_their_type() {
    for (value, data_type) in [
        ("2139", "bigint"),
        ("\"30001\"", "bigint"),
        ("-9223372036854775808", "bigint"),
        ("18446744073709551615", "bigint unsigned"),
        ("18446744073709551616", "decimal(38,0)"),
        ("-99999999999999999999999999999999999999", "decimal(38,0)"),
        ("100000000000000000000000000000000000000", "varchar"),
        ("0.12345678901234567890", "decimal(38,20)"),
        ("1.50", "decimal(18,2)"),
        ("1e16", "double"),
        ("true", "boolean"),
        ("2024-01-05", "date"),
        ("2024-01-05 10:00:00", "timestamp(9)"),
        ("2024-01-05T10:00:00Z", "timestamp(9) with time zone"),
    ] {
        let (columns, rows) = shown_by_default(&format!("id,v\n1,{value}\n2,\n"));
        assert_eq!(columns, ["id bigint".to_string(), format!("v {data_type}")]);
        assert_eq!(rows, [format!("1|{}", value.trim_matches('"')), "2|∅".into()]);
    }
}

#[test]
fn numbers_with_exponents_are_doubles() {
    let (columns, rows) = shown_by_default("v\n0.5\n9.31e-05\n1E+20\n0.000e+00\n");
    assert_eq!(columns, ["v double"]);
    assert_eq!(rows, ["0.5", "0.0000931", "1e20", "0.0"]);
}

#[test]
fn a_value_far_behind_the_sample_that_would_change_is_an_error_for_a_second_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.csv", "zip\n1\n2\n02139\n");
    let options = ImportOptions {
        sample_rows: Some(2),
        ..Default::default()
    };
    let error = read_all("t", &[path], &options).unwrap_err();
    assert!(matches!(error.fault, ImportFault::BadValue { .. }), "{error}");
    assert_eq!(error.place, SourceLocation::Line(4));
}

#[test]
fn types_can_be_given_by_column() {
    let options = ImportOptions {
        types: vec![
            ("Zip".into(), DataType::Utf8),
            ("n".into(), DataType::Decimal128(9, 2)),
        ],
        ..Default::default()
    };
    let (columns, rows) = shown("zip,n,m\n1,07,1\n2,1.5000,2\n", &options);
    assert_eq!(columns, ["zip varchar", "n decimal(9,2)", "m bigint"]);
    assert_eq!(rows, ["1|7.00|1", "2|1.50|2"]);
    let (_, text) = error_of("t", "x.csv", "zip,n\n1,1.555\n", &options);
    assert_eq!(
        text,
        "x.csv, line 2, column n: '1.555' is not a value of type decimal(9,2)"
    );
    let (_, text) = error_of("t", "x.csv", "zip,m\n1,1\n", &options);
    assert!(
        text.contains("no column 'n', whose type is given; there are zip, m"),
        "{text}"
    );
}

#[test]
fn quoted_empty_values_are_texts_and_missing_ones_null() {
    let (columns, rows) = shown_by_default("id,a,b\n1,\"\",x\n2,,\"\"\n3,y,\"\"\n");
    assert_eq!(columns, ["id bigint", "a varchar", "b varchar"]);
    assert_eq!(rows, ["1||x", "2|∅|", "3|y|"]);
    // In a column of numbers they are missing values, unless others are missing too.
    let (columns, rows) = shown_by_default("id,a\n1,\"\"\n2,\"5\"\n");
    assert_eq!(
        (columns[1].as_str(), rows.join(" ")),
        ("a bigint", "1|∅ 2|5".into())
    );
    let (columns, rows) = shown_by_default("id,a\n1,\"\"\n2,5\n3,\n");
    assert_eq!(
        (columns[1].as_str(), rows.join(" ")),
        ("a varchar", "1| 2|5 3|∅".into())
    );
    let options = ImportOptions {
        nulls: vec!["NA".into(), "-".into()],
        ..Default::default()
    };
    let (columns, rows) = shown("id,a\n1,NA\n2,-\n3,5\n4,\"NA\"\n", &options);
    assert_eq!(columns[1], "a varchar");
    assert_eq!(rows, ["1|∅", "2|∅", "3|5", "4|NA"]);
}

#[test]
fn delimiters_are_found() {
    for (text, columns, rows) in [
        ("a;b\n1;x\n2;y,z\n", ["a bigint", "b varchar"], ["1|x", "2|y,z"]),
        (
            "a\tb\n1\tx, y\n2\tz\n",
            ["a bigint", "b varchar"],
            ["1|x, y", "2|z"],
        ),
        ("a|b\r\n1|x\r\n2|y\r\n", ["a bigint", "b varchar"], ["1|x", "2|y"]),
        ("a,b\r1,x\r2,y\r", ["a bigint", "b varchar"], ["1|x", "2|y"]),
        (
            "name,n\n\"Doe; J\",1\n\"Roe; R\",2\n",
            ["name varchar", "n bigint"],
            ["Doe; J|1", "Roe; R|2"],
        ),
        (
            "name;n\nDoe, J;1\nRoe, R;2\n",
            ["name varchar", "n bigint"],
            ["Doe, J|1", "Roe, R|2"],
        ),
    ] {
        let (found, values) = shown_by_default(text);
        assert_eq!(found, columns, "{text:?}");
        assert_eq!(values, rows, "{text:?}");
    }
    let options = ImportOptions {
        delimiter: Some(b';'),
        ..Default::default()
    };
    assert_eq!(shown("a,b\n1,2\n", &options).0, ["a,b varchar"]);
}

#[test]
fn a_first_line_is_a_header_only_if_something_says_so() {
    for (text, rows) in [
        ("1,x\n2,y\n", ["1|x", "2|y"].as_slice()),
        ("Anna,Bonn\nBernd,Köln\n", &["Anna|Bonn", "Bernd|Köln"]),
        ("x,x\ny,z\n", &["x|x", "y|z"]),
        ("a,b\nc,d\na,e\n", &["a|b", "c|d", "a|e"]),
        ("2020,2021\n1,2\n", &["2020|2021", "1|2"]),
        ("a,,c\nd,e,f\n", &["a|∅|c", "d|e|f"]),
    ] {
        let (columns, values) = shown_by_default(text);
        assert!(columns[0].starts_with("c1 "), "{text:?}: {columns:?}");
        assert_eq!(values, rows, "{text:?}");
    }
    for (text, first) in [
        ("word,n\nx,1\n", "word varchar"),
        ("word,kind\nAnna,a\nBernd,b\nCarl,a\nDora,b\n", "word varchar"),
        ("city,mayor\nBonn,X\nUlm,Y\n", "city varchar"),
        ("label,place\nA1,x\nB2,y\n", "label varchar"),
        (",n\nx,1\n", "column0 varchar"),
    ] {
        assert_eq!(shown_by_default(text).0[0], first, "{text:?}");
    }
    for (header, rows) in [(true, 1), (false, 2)] {
        let options = ImportOptions {
            header: Some(header),
            ..Default::default()
        };
        assert_eq!(shown("Anna,Bonn\nBernd,Ulm\n", &options).1.len(), rows);
    }
}

#[test]
fn numbers_of_several_forms_are_one_number_type() {
    for (values, data_type, rows) in [
        (["1", "2", "2.5"], "double", ["1.0", "2.0", "2.5"]),
        (["1", "2.50", "2.5"], "double", ["1.0", "2.5", "2.5"]),
        (["1.50", "2.5", "3"], "double", ["1.5", "2.5", "3.0"]),
        (["1", "NaN", "-2"], "double", ["1.0", "NaN", "-2.0"]),
        (
            ["9007199254740993", "2.5", "0.25"],
            "decimal(38,2)",
            ["9007199254740993.00", "2.50", "0.25"],
        ),
        (["1", "2.5", "+7"], "varchar", ["1", "2.5", "+7"]),
        (["1", "2.5", "07"], "varchar", ["1", "2.5", "07"]),
    ] {
        let (columns, found) = shown_by_default(&format!("id|v\n1|{}\n", values.join("\n1|")));
        assert_eq!(columns[1], format!("v {data_type}"), "{values:?}");
        assert_eq!(found, rows.map(|row| format!("1|{row}")), "{values:?}");
    }
}

#[test]
fn dates_with_slashes_are_dates_if_their_order_is_certain() {
    for (values, data_type, rows) in [
        (["2024/01/05", "2024/1/31"], "date", ["2024-01-05", "2024-01-31"]),
        (["01/02/2024", "31/01/2024"], "date", ["2024-02-01", "2024-01-31"]),
        (["01/02/2024", "01/31/2024"], "date", ["2024-01-02", "2024-01-31"]),
        (
            ["2024/01/05 10:00:00", "2024/01/06 00:00:00.250"],
            "timestamp(9)",
            ["2024-01-05 10:00:00", "2024-01-06 00:00:00.250"],
        ),
        (
            ["01/02/2024", "02/01/2024"],
            "varchar",
            ["01/02/2024", "02/01/2024"],
        ),
        (
            ["2024/01/05", "2024-01-05"],
            "varchar",
            ["2024/01/05", "2024-01-05"],
        ),
        (
            ["13/01/2024", "01/13/2024"],
            "varchar",
            ["13/01/2024", "01/13/2024"],
        ),
    ] {
        let (columns, found) = shown_by_default(&format!("id,v\n1,{}\n", values.join("\n1,")));
        assert_eq!(columns[1], format!("v {data_type}"), "{values:?}");
        assert_eq!(found, rows.map(|row| format!("1|{row}")), "{values:?}");
    }
    let given = with_schema("d date, t timestamp(3)");
    let (_, rows) = shown("d,t\n2024/01/05,2024/01/05 10:00:00\n", &given);
    assert_eq!(rows, ["2024-01-05|2024-01-05 10:00:00"]);
}

#[test]
fn odd_headers_name_the_columns() {
    for (text, names) in [
        ("a,a\n1,2\n", ["a", "a_1"].as_slice()),
        ("id,ID,Id\n1,2,3\n", &["id", "ID_1", "Id_2"]),
        ("a,a,a_1\n1,2,3\n", &["a", "a_1", "a_1_1"]),
        ("a,,c\n1,2,3\n", &["a", "column1", "c"]),
        ("\"\",b\n1,2\n", &["column0", "b"]),
        ("a,b,,\n1,2,3,4\n", &["a", "b", "column2", "column3"]),
        ("a,b,\n1,2,\n3,4,\n", &["a", "b", "column2"]),
        ("a,b\n1,2,\n3,4,\n", &["a", "b"]),
        ("a,b,\n1,2\n3,4\n", &["a", "b"]),
        ("id,2020,2021\n1,10,20\n", &["id", "2020", "2021"]),
        (
            "region,2020,2021\nnorth,10,20\nsouth,5,6\n",
            &["region", "2020", "2021"],
        ),
        ("id,1,2,3\n7,1,5,6\n", &["id", "1", "2", "3"]),
        ("\"a\nb\",c\n1,2\n", &["a\nb", "c"]),
        ("\"a\nb\",c\nx,y\nz,w\n", &["a\nb", "c"]),
        ("name,name\nAnna,Bonn\nBernd,Ulm\n", &["name", "name_1"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "a.csv", text);
        let batch = read_all("t", &[path], &ImportOptions::default()).unwrap();
        let schema = batch.schema();
        let found: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(found, names, "{text:?}");
    }
}

#[test]
fn other_texts_for_null_are_beside_the_empty_one() {
    let options = ImportOptions {
        nulls: vec!["NA".into()],
        ..Default::default()
    };
    let (columns, rows) = shown("id,a\n1,NA\n2,\n3,5\n", &options);
    assert_eq!(columns[1], "a bigint");
    assert_eq!(rows, ["1|∅", "2|∅", "3|5"]);
}

#[test]
fn binaries_are_read_as_they_are_written() {
    let options = with_schema("id int, b bytea");
    let (_, rows) = shown("id,b\n1,a\\xFF\\x5Cb\n2,\"\"\n3,\n", &options);
    assert_eq!(rows, ["1|61ff5c62", "2|", "3|∅"]);
    let (_, text) = error_of("t", "x.csv", "id,b\n1,a\\q\n", &options);
    assert!(text.contains("line 2, column b: 'a\\q' is not a value"), "{text}");
    let bytes: Vec<u8> = (0..=255).collect();
    let text = super::super::value::text_of_bytes(&bytes);
    assert_eq!(super::super::value::bytes_of(&text).as_deref(), Some(&*bytes));
}

#[test]
fn stray_quotes_are_text_or_an_error_but_never_swallow_lines() {
    let mut tsv = String::from("id\ttext\tn\n");
    for i in 0..500 {
        let quote = if i % 100 == 7 { "\"" } else { "" };
        tsv += &format!("{i}\t{quote}word {i}\t{i}\n");
    }
    let (columns, rows) = shown_by_default(&tsv);
    assert_eq!(columns, ["id bigint", "text varchar", "n bigint"]);
    assert_eq!(rows.len(), 500);
    assert_eq!(rows[107], "107|\"word 107|107");
    let quoted = ImportOptions {
        quote: QuoteOption::Char(b'"'),
        ..Default::default()
    };
    let none = ImportOptions {
        quote: QuoteOption::None,
        ..Default::default()
    };
    for (text, line, fault) in [
        ("id,v\n1,x\n2,\"y\n3,z\n", 3, ImportFault::OpenQuote),
        ("id,v\n1,x\n2,\"y\"z\n3,z\n", 3, ImportFault::StrayQuote),
    ] {
        for options in [&ImportOptions::default(), &quoted] {
            let (error, text) = error_of("t", "x.csv", text, options);
            assert_eq!(
                (error.place, error.fault),
                (SourceLocation::Line(line), fault.clone())
            );
            assert!(text.contains("--quote none"), "{text}");
        }
        assert_eq!(shown(text, &none).1.len(), 3);
    }
    // Two stray quotes: between them is a line that looks like a record.
    let swallowing = "id,a,b,c,d\n1,2,3,4,5\n2,\"x,3,4,5\n3,y\",3,4,5\n4,2,3,4,5\n";
    let (error, _) = error_of("t", "x.csv", swallowing, &ImportOptions::default());
    assert_eq!(
        (error.place, error.fault),
        (SourceLocation::Line(3), ImportFault::LongQuote { lines: 1 })
    );
    assert_eq!(shown(swallowing, &none).1.len(), 4);
    assert_eq!(shown(swallowing, &quoted).1.len(), 3);
    // As the first record, before the number of columns is known.
    let (error, _) = error_of("t", "x.csv", "1,\"x,3,4\n3,y\",3,4\n", &ImportOptions::default());
    assert_eq!(
        (error.place, error.fault),
        (SourceLocation::Line(1), ImportFault::LongQuote { lines: 1 })
    );
    // A field of very many lines.
    let long = format!("id,v\n1,\"{}\"\n", "x\n".repeat(2000));
    let (error, _) = error_of("t", "x.csv", &long, &ImportOptions::default());
    assert!(matches!(error.fault, ImportFault::LongQuote { .. }), "{error}");
    assert_eq!(error.place, SourceLocation::Line(2));
    assert_eq!(shown(&long, &quoted).1.len(), 1);
}

#[test]
fn quotes_within_text_and_other_quotes_are_read() {
    let (_, rows) = shown_by_default("id,v\n1,5\" pipe\n2,\"a \"\"b\"\"\"\n3,'x'\n");
    assert_eq!(rows, ["1|5\" pipe", "2|a \"b\"", "3|'x'"]);
    let (_, rows) = shown_by_default("id,v\n1,'a,b'\n2,'it''s, so'\n3,c\n");
    assert_eq!(rows, ["1|a,b", "2|it's, so", "3|c"]);
}

#[test]
fn reports_name_the_deciding_value() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.csv", "id;zip;none\n1;10115;\n2;02139;\n");
    let files = Files::open("t", std::slice::from_ref(&path), &ImportOptions::default()).unwrap();
    let columns: Vec<String> = files.columns.iter().map(ToString::to_string).collect();
    assert_eq!(
        columns,
        [
            "id bigint: line 2: \"1\"",
            "zip varchar: line 3: \"02139\"",
            "none varchar: no value"
        ]
    );
    let text = files.dialects()[0].to_string();
    assert!(
        text.ends_with(
            "a.csv: delimiter ;, quote \", header yes ('id' has another type than the values below it)"
        ),
        "{text}"
    );
}

#[test]
fn very_many_columns_are_refused() {
    let line = "x,".repeat(100_000) + "\n";
    let (error, text) = error_of("t", "x.csv", line.repeat(3), &ImportOptions::default());
    assert_eq!(
        error.fault,
        ImportFault::TooManyColumns { most: 10_000 },
        "{text}"
    );
    assert_eq!(error.place, SourceLocation::Line(1));
}

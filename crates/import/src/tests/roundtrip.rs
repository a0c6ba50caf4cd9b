//! Random values, written as CSV in random dialects, come back unchanged.
//!
//! `HALOCLINE_CSV_CASES` sets the number of cases, `HALOCLINE_CSV_SEED` the first seed.

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;

/// The quoting of a text by the writer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quoting {
    Never,
    Needed,
    Always,
}

#[derive(Debug)]
struct Written {
    delimiter: char,
    quote: char,
    quoting: Quoting,
    ending: &'static str,
    header: bool,
    null: &'static str,
    mark: bool,
    last_ending: bool,
}

impl Written {
    fn random(random: &mut StdRng) -> Self {
        Self {
            delimiter: *[',', ';', '\t', '|', '^', '~'].choose(random).unwrap(),
            quote: *['"', '"', '"', '\''].choose(random).unwrap(),
            quoting: *[Quoting::Never, Quoting::Needed, Quoting::Needed, Quoting::Always]
                .choose(random)
                .unwrap(),
            ending: ["\n", "\n", "\r\n"].choose(random).unwrap(),
            header: random.random(),
            null: ["", "", "NA", "\\N"].choose(random).unwrap(),
            mark: random.random_ratio(1, 8),
            last_ending: random.random_ratio(7, 8),
        }
    }

    fn field(&self, value: Option<&str>) -> String {
        let Some(value) = value else {
            return self.null.into();
        };
        let special = [self.delimiter, self.quote, '\n', '\r'];
        let needed = value.contains(special) || value.is_empty() || value == self.null;
        match self.quoting {
            Quoting::Never => value.into(),
            Quoting::Needed if !needed => value.into(),
            _ => {
                let (one, two) = (self.quote.to_string(), self.quote.to_string().repeat(2));
                format!("{one}{}{one}", value.replace(&one, &two))
            }
        }
    }

    /// Returns true if the value can be written.
    fn takes(&self, value: &str) -> bool {
        let special = [self.delimiter, '\n', '\r'];
        self.quoting != Quoting::Never || !(value.is_empty() || value == self.null || value.contains(special))
    }
}

fn text(random: &mut StdRng) -> String {
    let parts = [
        "a", "B", "word", " ", "é", "名", "🦀", "\"", "'", ",", ";", "\t", "|", "^", "~", "\n", "\r\n", "0",
        "7", ".", "-", "\\",
    ];
    let length = random.random_range(0..8);
    (0..length).map(|_| *parts.choose(random).unwrap()).collect()
}

/// Returns a random value for a kind of column. Kinds below 9 have a single type, the others are mixed.
fn value(kind: u32, random: &mut StdRng) -> String {
    match kind {
        0 => random.random::<i64>().to_string(),
        1 => random.random_range(-99..99).to_string(),
        2 => format!(
            "{}.{:02}",
            random.random_range(0..1000),
            random.random_range(0..100)
        ),
        3 => ryu::Buffer::new()
            .format(f64::from_bits(random.random()))
            .to_string(),
        4 => random.random::<bool>().to_string(),
        5 => format!(
            "20{:02}-{:02}-{:02}",
            random.random_range(0..99),
            random.random_range(1..13),
            random.random_range(1..29)
        ),
        6 => format!(
            "2024-02-29 {:02}:{:02}:00.250",
            random.random_range(0..24),
            random.random_range(0..60)
        ),
        7 => random.random::<u128>().to_string(),
        8 => ["north", "south", "east"].choose(random).unwrap().to_string(),
        9 => format!("{:05}", random.random_range(0..100_000)),
        10 => format!("+{}", random.random_range(0..100_000)),
        11 => random.random_range(-2.0..2.0_f32).to_string(),
        12 => text(random),
        _ => value(random.random_range(0..12), random),
    }
}

fn case(seed: u64, dir: &Path) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let written = Written::random(&mut random);
    let columns = random.random_range(1..6);
    let kinds: Vec<u32> = (0..columns).map(|_| random.random_range(0..14)).collect();
    let rows = random.random_range(0..25);
    let nulls = *[0.0, 0.1, 0.9].choose(&mut random).unwrap();
    let mut table: Vec<Vec<Option<String>>> = Vec::new();
    for _ in 0..rows {
        let row = kinds.iter().map(|kind| {
            if random.random_bool(nulls) {
                None
            } else {
                (0..50)
                    .map(|_| value(*kind, &mut random))
                    .find(|value| written.takes(value))
            }
        });
        table.push(row.collect());
    }
    let separator = written.delimiter.to_string();
    let mut lines: Vec<String> = Vec::new();
    let names: Vec<String> = (0..columns).map(|i| format!("name_{i}")).collect();
    if written.header {
        lines.push(names.join(&separator));
    }
    for row in &table {
        let fields: Vec<String> = row.iter().map(|value| written.field(value.as_deref())).collect();
        lines.push(fields.join(&separator));
    }
    let mut file = lines.join(written.ending);
    if written.last_ending || columns == 1 {
        file += written.ending;
    }
    if written.mark {
        file.insert(0, '\u{feff}');
    }
    let any = |what: &dyn Fn(&str) -> bool| table.iter().flatten().flatten().any(|value| what(value));
    // What the values make ambiguous is given.
    let other_delimiters = any(&|v| v.contains([',', ';', '\t', '|', '^', '~']));
    let quotes = any(&|v| v.contains(['"', '\'', '\n', '\r']));
    let detects = random.random::<bool>();
    let options = ImportOptions {
        delimiter: (!detects || other_delimiters || quotes || columns == 1)
            .then(|| u8::try_from(written.delimiter).unwrap()),
        quote: match written.quoting {
            Quoting::Never if !quotes && detects => QuoteOption::Detect,
            Quoting::Never => QuoteOption::None,
            _ if written.quote == '"' && detects => QuoteOption::Detect,
            _ => QuoteOption::Char(u8::try_from(written.quote).unwrap()),
        },
        header: (!detects || !written.header).then_some(written.header),
        nulls: vec![written.null.into()],
        sample_rows: random.random::<bool>().then_some(3),
        batch_rows: random.random_range(1..10),
        ..Default::default()
    };
    if lines.is_empty()
        || (columns == 1 && !written.header && written.field(table[0][0].as_deref()).is_empty())
    {
        return Ok(()); // an empty file, or one that begins with a blank line
    }
    let describe = |what: String| format!("seed {seed}: {what}\n{written:?}\n{options:?}\n{file:?}");
    let path = write(dir, "x.csv", &file);
    let read = |options: &ImportOptions| {
        let files = Files::open("t", std::slice::from_ref(&path), options)?;
        let header = files.dialects()[0].header;
        read_all("t", std::slice::from_ref(&path), options).map(|batch| (batch, header))
    };
    let whole = ImportOptions {
        sample_rows: None,
        ..options.clone()
    };
    let result = match read(&options) {
        Err(error) if matches!(error.fault, ImportFault::BadValue { .. }) => read(&whole),
        result => result,
    };
    let (batch, header) = match result {
        Ok(read) => read,
        // Refused rather than altered: only where the quote is not given.
        Err(error)
            if matches!(error.fault, ImportFault::LongQuote { .. })
                && options.quote == QuoteOption::Detect =>
        {
            return Ok(());
        }
        Err(error) => return Err(describe(error.to_string())),
    };
    let mut expected = table;
    if written.header && !header {
        expected.insert(0, names.into_iter().map(Some).collect());
    }
    let format = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let found: Vec<Vec<Option<String>>> = (0..batch.num_rows())
        .map(|row| {
            let value = |array: &arrow_array::ArrayRef| {
                let formatter = ArrayFormatter::try_new(array.as_ref(), &format).unwrap();
                (!array.is_null(row)).then(|| formatter.value(row).to_string())
            };
            batch.columns().iter().map(value).collect()
        })
        .collect();
    let unchanged = found.len() == expected.len()
        && found.iter().zip(&expected).all(|(found, expected)| {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| is_same(a, b))
        });
    if unchanged {
        Ok(())
    } else {
        Err(describe(format!("{expected:?}\ncame back as\n{found:?}")))
    }
}

/// Returns true if both are the same text, or plain forms of the same number, which a double or decimal
/// prints in its own form.
fn is_same(found: &Option<String>, expected: &Option<String>) -> bool {
    let (Some(found), Some(expected)) = (found, expected) else {
        return found == expected;
    };
    let digits = expected.trim_start_matches('-');
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && !(digits.starts_with('0') && digits[1..].starts_with(|c: char| c.is_ascii_digit()));
    let number = |text: &str| text.parse::<f64>().ok().filter(|_| plain);
    found == expected || (number(found).is_some() && number(found) == number(expected))
}

#[test]
fn random_values_in_random_dialects_come_back_unchanged() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (cases, first) = (
        number("HALOCLINE_CSV_CASES", 1500),
        number("HALOCLINE_CSV_SEED", 1),
    );
    let dir = tempfile::tempdir().unwrap();
    for seed in first..first + cases {
        if let Err(error) = case(seed, dir.path()) {
            panic!("{error}");
        }
    }
}

//! `strptime(text, pattern)`: a text as a timestamp of microseconds, by a pattern of `strftime`.
//!
//! What a pattern leaves out is that of 1 January 1900 at midnight, as in DuckDB. A distance from UTC, as
//! `%z` reads it, is subtracted. `%f` reads a fraction of a second.

use arrow_array::{Int64Array, StringArray};
use arrow_schema::{DataType, TimeUnit};
use chrono::NaiveDateTime;
use chrono::format::{Item, ParseErrorKind, ParseResult, Parsed, StrftimeItems, parse};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use halocline_values::times::of_numbers;

use super::arguments::{AcceptedType, by_columns, check_types, documentation, failed, is_text, texts};

const TYPE: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// `strptime`, or `try_strptime`, which returns NULL for texts that do not match.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Strptime {
    is_lenient: bool,
    signature: Signature,
    documentation: Documentation,
}

impl Strptime {
    pub(super) fn new(is_lenient: bool) -> Self {
        let (otherwise, syntax) = if is_lenient {
            (", or NULL if it does not match", "try_strptime(text, '%Y-%m-%d')")
        } else {
            ("", "strptime(text, '%Y-%m-%d')")
        };
        Self {
            is_lenient,
            signature: Signature::variadic_any(Volatility::Immutable),
            documentation: documentation(
                &format!("Reads a text as a timestamp by a pattern{otherwise}."),
                syntax,
            ),
        }
    }

    /// Returns the microseconds since 1970 that texts stand for, each by the pattern of its row.
    fn read(&self, texts: &StringArray, patterns: &StringArray) -> Result<Int64Array> {
        let mut last: Option<ReadingPattern> = None;
        let read = |(text, pattern): (Option<&str>, Option<&str>)| {
            let Some((text, pattern)) = text.zip(pattern) else {
                return Ok(None);
            };
            let known = match last.take().filter(|last| last.text == pattern) {
                Some(known) => known,
                None => match ReadingPattern::new(pattern) {
                    Some(read) => read,
                    None => {
                        return failed(format!(
                            "{}: '{pattern}' has a field after % that is unknown; see strftime",
                            self.name()
                        ));
                    }
                },
            };
            let time = known.read(text);
            last = Some(known);
            match time {
                Ok(microseconds) => Ok(Some(microseconds)),
                Err(_) if self.is_lenient => Ok(None),
                Err(error) => failed(format!(
                    "{}: '{text}' does not match the pattern '{pattern}' ({error}); try_strptime returns NULL for \
                     such texts",
                    self.name()
                )),
            }
        };
        texts.iter().zip(patterns).map(read).collect()
    }
}

/// A pattern and what it consists of.
struct ReadingPattern {
    text: String,
    items: Vec<Item<'static>>,
}

impl ReadingPattern {
    /// Reads a pattern; `None` if it has an unknown field.
    fn new(pattern: &str) -> Option<Self> {
        let items = StrftimeItems::new(&fractions(pattern)).parse_to_owned().ok()?;
        Some(Self {
            text: pattern.to_owned(),
            items,
        })
    }

    /// Returns the microseconds since 1970 that a text stands for.
    fn read(&self, text: &str) -> ParseResult<i64> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.items.iter())?;
        let is_instant = parsed.timestamp().is_some();
        let time = if is_instant {
            parsed.to_naive_datetime_with_offset(0)?
        } else {
            completed(&mut parsed)?
        };
        let offset = parsed.offset().filter(|_| !is_instant).unwrap_or(0);
        let time = time.and_utc();
        let fraction = i64::from(time.timestamp_subsec_nanos() + 500) / 1_000;
        // The calendar ends long before 64 bits of microseconds do.
        Ok((time.timestamp() - i64::from(offset)) * 1_000_000 + fraction)
    }
}

/// Returns a pattern in which `%f` is a fraction; it would be a number of nanoseconds, so that `.5` had five.
fn fractions(pattern: &str) -> String {
    let (mut read, mut rest) = (String::with_capacity(pattern.len()), pattern);
    while let Some((before, after)) = rest.split_once('%') {
        read.push_str(before);
        if let Some(after) = after.strip_prefix('f') {
            if read.ends_with('.') {
                read.pop();
                read.push_str("%.f");
            } else {
                read.push_str("%6f");
            }
            rest = after;
        } else {
            let field = after.chars().next().map_or(0, char::len_utf8);
            read.push('%');
            read.push_str(&after[..field]);
            rest = &after[field..];
        }
    }
    read.push_str(rest);
    read
}

/// Returns the time of fields, of which some may be missing.
fn completed(parsed: &mut Parsed) -> ParseResult<NaiveDateTime> {
    if parsed.hour_mod_12().is_none() {
        parsed.set_hour(0)?;
    } else if parsed.hour_div_12().is_none() {
        parsed.set_ampm(false)?;
    }
    if parsed.minute().is_none() {
        parsed.set_minute(0)?;
    }
    let date = match parsed.to_naive_date() {
        Err(error) if error.kind() == ParseErrorKind::NotEnough => {
            if parsed.year().or(parsed.year_mod_100()).is_none() {
                parsed.set_year(1900)?;
            }
            if parsed.month().is_none() {
                parsed.set_month(1)?;
            }
            if parsed.day().is_none() {
                parsed.set_day(1)?;
            }
            parsed.to_naive_date()?
        }
        date => date?,
    };
    Ok(date.and_time(parsed.to_naive_time()?))
}

impl ScalarUDFImpl for Strptime {
    fn name(&self) -> &str {
        if self.is_lenient {
            "try_strptime"
        } else {
            "strptime"
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let accepted: [AcceptedType<'_>; 2] = [("a text", is_text), ("a text", is_text)];
        check_types(&self.documentation.syntax_example, types, 2, &accepted)?;
        Ok(TYPE)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_columns(&args, |columns| {
            let times = self.read(&texts(&columns[0])?, &texts(&columns[1])?)?;
            Ok(of_numbers(times, &TYPE)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, pattern: &str) -> Option<i64> {
        ReadingPattern::new(pattern).unwrap().read(text).ok()
    }

    #[test]
    fn missing_fields_are_those_of_1900() {
        let day = 86_400_000_000_i64;
        for (text, pattern, microseconds) in [
            ("01/02/2020", "%d/%m/%Y", 18_293 * day),
            ("1970", "%Y", 0),
            ("1970-02", "%Y-%m", 31 * day),
            ("06:00", "%H:%M", -25_567 * day + day / 4),
            ("6 PM", "%I %p", -25_567 * day + 3 * day / 4),
            ("1970-01-01 06", "%Y-%m-%d %H", day / 4),
            ("9999-12-31", "%Y-%m-%d", 2_932_896 * day),
            ("1969-12-31", "%Y-%m-%d", -day),
            ("1970-01-01 02:00:00 +0200", "%Y-%m-%d %H:%M:%S %z", 0),
            ("1700000000", "%s", 1_700_000_000_000_000),
            ("00:00:00.5 1 1 1970", "%H:%M:%S.%f %d %m %Y", 500_000),
            ("00000000000025 1 1 1970", "%H%M%S00%f %d %m %Y", 25),
        ] {
            assert_eq!(read(text, pattern), Some(microseconds), "{text} {pattern}");
        }
    }

    #[test]
    fn what_does_not_match_is_no_time() {
        for (text, pattern) in [
            ("2023-02-30", "%Y-%m-%d"),
            ("2023-02-20x", "%Y-%m-%d"),
            ("", "%Y"),
            ("25", "%H"),
        ] {
            assert_eq!(read(text, pattern), None, "{text} {pattern}");
        }
        assert!(ReadingPattern::new("%Y %!").is_none());
        assert_eq!(fractions("%%f %S.%f %f ä%"), "%%f %S%.f %6f ä%");
    }
}

//! Patterns of `to_char`, `to_date` and `to_timestamp`: PostgreSQL's templates (`YYYY-MM-DD`), or those of
//! `strftime` if there is a `%` in them (`%Y-%m-%d`). What neither knows is an error, and no text.

use chrono::format::{Item, StrftimeItems};
use chrono::{Datelike, NaiveDateTime, Timelike};

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplatePart {
    Text(String),
    /// A field as it is written, and whether it is filled with blanks or zeros.
    Field {
        name: &'static str,
        is_filled: bool,
    },
}

/// Fields, of those that begin alike the longest first.
const FIELDS: [&str; 41] = [
    "YYYY", "YYY", "YY", "Y", "IYYY", "MM", "Month", "MONTH", "month", "Mon", "MON", "mon", "MI", "MS",
    "DDD", "DD", "Day", "DAY", "day", "Dy", "DY", "dy", "D", "HH24", "HH12", "HH", "SS", "US", "AM", "PM",
    "am", "pm", "A.M.", "P.M.", "TZ", "OF", "Q", "WW", "IW", "ID", "W",
];

/// Returns true if the field may be written in either case.
fn is_case_free(field: &str) -> bool {
    !field.contains('.')
        && !matches!(
            field.to_ascii_uppercase().as_str(),
            "MONTH" | "MON" | "DAY" | "DY" | "AM" | "PM"
        )
}

/// Returns true for a pattern of `strftime`.
pub(super) fn is_strftime(pattern: &str) -> bool {
    pattern.contains('%')
}

/// Checks a pattern of `strftime`.
///
/// # Errors
/// The text names what is unknown.
pub(super) fn check_strftime(pattern: &str) -> Result<(), String> {
    if StrftimeItems::new(pattern).any(|item| matches!(item, Item::Error)) {
        Err(format!(
            "'{pattern}' has a field after % that is unknown; see strftime"
        ))
    } else {
        Ok(())
    }
}

/// Reads a template.
///
/// # Errors
/// The text names what is unknown.
pub(super) fn template(pattern: &str) -> Result<Vec<TemplatePart>, String> {
    let mut parts = Vec::new();
    let (mut rest, mut is_filled) = (pattern, true);
    let text = |parts: &mut Vec<TemplatePart>, text: &str| match parts.last_mut() {
        Some(TemplatePart::Text(before)) => before.push_str(text),
        _ => parts.push(TemplatePart::Text(text.to_owned())),
    };
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            (rest, is_filled) = (after, false);
            continue;
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            text(&mut parts, inside);
            rest = after;
            continue;
        }
        let begins = |field: &&&str| {
            let beginning = rest.get(..field.len());
            beginning.is_some_and(|beginning| {
                beginning == **field || (is_case_free(field) && beginning.eq_ignore_ascii_case(field))
            })
        };
        match FIELDS.iter().find(begins) {
            Some(name) => {
                parts.push(TemplatePart::Field { name, is_filled });
                is_filled = true;
                rest = &rest[name.len()..];
                let suffix = ["TH", "th"].iter().any(|suffix| rest.starts_with(suffix));
                if suffix {
                    return Err(format!("'{pattern}': {name}{} is unknown", &rest[..2]));
                }
            }
            None if next.is_alphanumeric() => {
                let word = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(rest);
                return Err(format!(
                    "'{pattern}': {word} is unknown; put text between double quotes, or write a pattern of strftime with %"
                ));
            }
            None => {
                text(&mut parts, &rest[..next.len_utf8()]);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    Ok(parts)
}

/// Writes a date and time, which has a distance from UTC in seconds if it has a time zone.
pub(super) fn write(parts: &[TemplatePart], time: NaiveDateTime, zone: Option<(&str, i32)>) -> String {
    let mut written = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(text) => written.push_str(text),
            TemplatePart::Field { name, is_filled } => written.push_str(&field(name, *is_filled, time, zone)),
        }
    }
    written
}

fn field(name: &str, is_filled: bool, time: NaiveDateTime, zone: Option<(&str, i32)>) -> String {
    let number = |value: i64, digits: usize| {
        if is_filled {
            format!("{value:0digits$}")
        } else {
            value.to_string()
        }
    };
    // In upper or lower case as the field is written, and nine letters wide if it is filled.
    let word = |pattern: &str, width: usize| {
        let word = time.format(pattern).to_string();
        let word = match name {
            name if name.chars().all(char::is_uppercase) => word.to_uppercase(),
            name if name.chars().all(char::is_lowercase) => word.to_lowercase(),
            _ => word,
        };
        if is_filled { format!("{word:width$}") } else { word }
    };
    let hour12 = if time.hour().is_multiple_of(12) {
        12
    } else {
        time.hour() % 12
    };
    let half = if time.hour() < 12 { 'A' } else { 'P' };
    let year = i64::from(time.year());
    match name {
        "YYYY" => number(year, 4),
        "YYY" => number(year.rem_euclid(1000), 3),
        "YY" => number(year.rem_euclid(100), 2),
        "Y" => number(year.rem_euclid(10), 1),
        "IYYY" => number(time.iso_week().year().into(), 4),
        "MM" => number(time.month().into(), 2),
        "Month" | "MONTH" | "month" => word("%B", 9),
        "Mon" | "MON" | "mon" => word("%b", 0),
        "DDD" => number(time.ordinal().into(), 3),
        "DD" => number(time.day().into(), 2),
        "Day" | "DAY" | "day" => word("%A", 9),
        "Dy" | "DY" | "dy" => word("%a", 0),
        "D" => (time.weekday().num_days_from_sunday() + 1).to_string(),
        "ID" => time.weekday().number_from_monday().to_string(),
        "HH24" => number(time.hour().into(), 2),
        "HH" | "HH12" => number(hour12.into(), 2),
        "MI" => number(time.minute().into(), 2),
        "SS" => number(time.second().into(), 2),
        "MS" => format!("{:03}", time.nanosecond() / 1_000_000),
        "US" => format!("{:06}", time.nanosecond() / 1_000),
        "AM" | "PM" => format!("{half}M"),
        "am" | "pm" => format!("{half}m").to_lowercase(),
        "A.M." | "P.M." => format!("{half}.M."),
        "Q" => ((time.month() - 1) / 3 + 1).to_string(),
        "WW" => number(i64::from((time.ordinal() - 1) / 7 + 1), 2),
        "W" => ((time.day() - 1) / 7 + 1).to_string(),
        "IW" => number(time.iso_week().week().into(), 2),
        "TZ" => zone.map(|(name, _)| name.to_owned()).unwrap_or_default(),
        "OF" => {
            let seconds = zone.map_or(0, |(_, seconds)| seconds);
            let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
            match minutes % 60 {
                0 => format!("{sign}{:02}", minutes / 60),
                rest => format!("{sign}{:02}:{rest:02}", minutes / 60),
            }
        }
        other => other.to_owned(),
    }
}

/// Returns the pattern of `strftime` that reads what a template describes.
///
/// # Errors
/// The text names what cannot be read.
pub(super) fn reading_pattern(pattern: &str) -> Result<String, String> {
    let mut strftime = String::new();
    for part in template(pattern)? {
        let field = match part {
            TemplatePart::Text(text) => {
                strftime.push_str(&text);
                continue;
            }
            TemplatePart::Field { name, .. } => name,
        };
        strftime.push_str(match field {
            "YYYY" => "%Y",
            "YY" => "%y",
            "IYYY" => "%G",
            "MM" => "%m",
            "Month" | "MONTH" | "month" => "%B",
            "Mon" | "MON" | "mon" => "%b",
            "DDD" => "%j",
            "DD" => "%d",
            "Day" | "DAY" | "day" => "%A",
            "Dy" | "DY" | "dy" => "%a",
            "ID" => "%u",
            "IW" => "%V",
            "HH24" => "%H",
            "HH" | "HH12" => "%I",
            "MI" => "%M",
            "SS" => "%S",
            "MS" => "%3f",
            "US" => "%6f",
            "AM" | "PM" | "am" | "pm" => "%p",
            "OF" => "%#z",
            other => return Err(format!("'{pattern}': {other} cannot be read")),
        });
    }
    Ok(strftime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDate;

    #[test]
    fn templates_are_those_of_postgresql() {
        let time = NaiveDate::from_ymd_opt(2024, 3, 5).unwrap();
        let time = time.and_hms_micro_opt(15, 4, 9, 12_345).unwrap();
        for (pattern, text) in [
            ("YYYY-MM-DD", "2024-03-05"),
            ("yyyy-mm-dd hh24:mi:ss", "2024-03-05 15:04:09"),
            ("DD.MM.YY", "05.03.24"),
            ("FMDD.FMMM.YYYY", "5.3.2024"),
            ("HH12:MI:SS AM", "03:04:09 PM"),
            ("HH:MI pm", "03:04 pm"),
            ("MS US", "012 012345"),
            ("Day, DD Month YYYY", "Tuesday  , 05 March     2024"),
            ("FMDay, FMDD FMMonth YYYY", "Tuesday, 5 March 2024"),
            ("DY dy Dy MON mon Mon", "TUE tue Tue MAR mar Mar"),
            ("DDD D ID Q WW W IW IYYY", "065 3 2 1 10 1 10 2024"),
            ("YYYY\"-Q\"Q", "2024-Q1"),
            ("\"YYYY\"", "YYYY"),
            ("YYYYMMDD\"T\"HH24MISS", "20240305T150409"),
            ("OF TZ", "+00 "),
        ] {
            assert_eq!(write(&template(pattern).unwrap(), time, None), text, "{pattern}");
        }
        for (pattern, unknown) in [
            ("YYYY-MM-DDTHH24", "DDTH"),
            ("foo", "foo"),
            ("RM", "RM"),
            ("DDth", "DDth"),
        ] {
            let error = template(pattern).unwrap_err();
            assert!(
                error.contains(&format!("{unknown} is unknown")),
                "{pattern}: {error}"
            );
        }
        assert_eq!(
            write(&template("TZ OF").unwrap(), time, Some(("CET", 3600))),
            "CET +01"
        );
        assert_eq!(reading_pattern("DD.MM.YYYY HH24:MI").unwrap(), "%d.%m.%Y %H:%M");
        assert!(
            reading_pattern("Q YYYY")
                .unwrap_err()
                .contains("Q cannot be read")
        );
        assert!(check_strftime("%Y-%m").is_ok() && check_strftime("%Y %!").is_err());
    }
}

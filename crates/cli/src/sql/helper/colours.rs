//! Colours for keywords, texts, numbers and comments of SQL.

use halocline_engine::reference::is_keyword;
use halocline_engine::{SqlPart, SqlParts};

use crate::sql::statements::is_command;

const KEYWORD: &str = "\u{1b}[1;34m";
const TEXT: &str = "\u{1b}[32m";
const NUMBER: &str = "\u{1b}[36m";
const COMMENT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Returns a line of SQL with its colours. Without them, it is the line as it was.
pub(super) fn coloured(line: &str) -> String {
    if is_command(line) {
        return line.to_owned();
    }
    let mut text = String::with_capacity(line.len() * 2);
    let starts: Vec<(usize, bool)> = SqlParts::new(line)
        .map(|part| match part {
            SqlPart::Semicolon(at) | SqlPart::Text(at) => (at, false),
            SqlPart::Open { at, .. } => (at, true),
        })
        .collect();
    let mut at = 0;
    for (index, (start, is_open)) in starts.iter().enumerate() {
        push_gap(&mut text, &line[at..*start]);
        let next = starts.get(index + 1).map_or(line.len(), |(next, _)| *next);
        let part = &line[*start..next];
        at = if *is_open { next } else { start + part_length(part) };
        push(&mut text, &line[*start..at], colour(&line[*start..at]));
    }
    push_gap(&mut text, &line[at..]);
    text
}

/// Returns the length of the part that a text begins with; blanks and comments may follow it.
fn part_length(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '@' | '#' | '$');
    let first = text.chars().next().unwrap_or(' ');
    let to_last = |quote: char| {
        text.rfind(quote)
            .map_or(text.len(), |last| last + quote.len_utf8())
    };
    match first {
        '\'' | '"' | '`' | '$' => to_last(first),
        c if c.is_alphabetic() || c == '_' => {
            let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
            // A text with a prefix, as E'…'.
            if text[end..].starts_with('\'') {
                to_last('\'')
            } else {
                end
            }
        }
        c => c.len_utf8(),
    }
}

fn colour(part: &str) -> Option<&'static str> {
    let first = part.chars().next()?;
    if first.is_ascii_digit() {
        Some(NUMBER)
    } else if part.ends_with('\'') || matches!(first, '\'' | '$') && part.len() > 1 {
        Some(TEXT)
    } else if part.starts_with("/*") {
        Some(COMMENT)
    } else if is_keyword(part) {
        Some(KEYWORD)
    } else {
        None
    }
}

/// Adds what is between two parts: blanks and comments.
fn push_gap(text: &mut String, gap: &str) {
    let is_comment = !gap.trim().is_empty();
    push(text, gap, is_comment.then_some(COMMENT));
}

fn push(text: &mut String, part: &str, colour: Option<&str>) {
    match colour {
        Some(colour) => text.extend([colour, part, PLAIN]),
        None => text.push_str(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        let colours = [KEYWORD, TEXT, NUMBER, COMMENT, PLAIN];
        let without = |text: String, colour: &str| text.replace(colour, "");
        colours
            .iter()
            .fold(text.to_owned(), |text, colour| without(text, colour))
    }

    #[test]
    fn colours_leave_the_text_as_it_is() {
        for line in [
            "SELECT a, 'it''s' AS \"from\" FROM t WHERE b = 12.5; -- done",
            "/* one */ select E'\\'' || $$x;$$, größe /* two",
            "\\d t",
            "SELECT 'open",
            "SELECT $1, q'[it's]' ;;",
            "",
        ] {
            assert_eq!(plain(&coloured(line)), line);
        }
    }

    #[test]
    fn keywords_texts_numbers_and_comments_have_colours() {
        let text = coloured("select 'from' /* to */ x, 7");
        for part in [
            format!("{KEYWORD}select{PLAIN}"),
            format!("{TEXT}'from'{PLAIN}"),
            format!("{COMMENT} /* to */ {PLAIN}x"),
            format!("{NUMBER}7{PLAIN}"),
        ] {
            assert!(text.contains(&part), "{text:?}");
        }
    }
}

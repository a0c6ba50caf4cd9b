//! The command of a command line. A pool in the place of a command is opened in a shell, and so is a pool in
//! memory where there is neither.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Parser;

use crate::args::{Cli, Command, IN_MEMORY, InternalCli};
use crate::external;

/// Parses the arguments of the program, the first of which is its own name.
///
/// # Errors
/// They make no command; or help was asked for.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, clap::Error> {
    match arguments.get(1) {
        None => with_sql(arguments, &[OsString::from(IN_MEMORY)]),
        Some(word) if word == "internal" => {
            let internal = InternalCli::try_parse_from(&arguments[1..])?;
            Ok(Command::Internal(internal.command))
        }
        Some(word) => match Cli::try_parse_from(arguments) {
            Err(error) if is_pool(word) && external::is_unknown(word, &error) => {
                with_sql(arguments, &arguments[1..])
            }
            parsed => parsed.map(|cli| cli.command),
        },
    }
}

/// Parses arguments behind `halocline sql`.
fn with_sql(arguments: &[OsString], rest: &[OsString]) -> Result<Command, clap::Error> {
    let program = arguments.first().cloned().unwrap_or_else(|| "halocline".into());
    let sql = [program, "sql".into()];
    Cli::try_parse_from(sql.iter().chain(rest)).map(|cli| cli.command)
}

/// Returns true for a word that is a file, or looks like the path of one. A word without a dot or a slash is
/// rather a command that is misspelt.
fn is_pool(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text == IN_MEMORY || text.contains(['/', '.']) || Path::new(word).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(words: &[&str]) -> Option<(String, Option<String>)> {
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        match parse(&arguments) {
            Ok(Command::Sql(sql)) => Some((sql.pool.display().to_string(), sql.query)),
            _ => None,
        }
    }

    #[test]
    fn a_pool_in_the_place_of_a_command_opens_a_shell() {
        let of = |name: &str, query: Option<&str>| Some((name.to_owned(), query.map(str::to_owned)));
        assert_eq!(pool(&["halocline"]), of(":memory:", None));
        assert_eq!(pool(&["halocline", ":memory:"]), of(":memory:", None));
        assert_eq!(pool(&["halocline", "shop.pool"]), of("shop.pool", None));
        assert_eq!(
            pool(&["halocline", "./shop", "SELECT 1", "--create"]),
            of("./shop", Some("SELECT 1"))
        );
        assert_eq!(pool(&["halocline", "sql", "p"]), of("p", None));
        for wrong in [
            &["halocline", "impor"][..],
            &["halocline", "--create"],
            &["halocline", "check", "p"],
        ] {
            assert_eq!(pool(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn steps_of_the_program_are_parsed_apart() {
        let words = ["halocline", "internal", "append", "p", "7"].map(OsString::from);
        assert!(matches!(parse(&words), Ok(Command::Internal(_))));
    }
}

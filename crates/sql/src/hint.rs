//! Hints at names that a user may have meant.

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// Returns true if a name may be a misspelling of another one: of a name of 3 to 5 characters one of them
/// differs, of a longer one at most two. Shorter names are like too many others.
fn is_near(name: &str, other: &str) -> bool {
    let allowed = match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    };
    levenshtein(&name.to_lowercase(), &other.to_lowercase()) <= allowed
}

/// Returns DataFusion's error for a function that is not there with a hint at the name that it proposes only
/// if that is near; `None` for other errors.
pub(crate) fn no_function(text: &str) -> Option<String> {
    let rest = text.strip_prefix("Invalid function '")?;
    let (name, proposed) = rest.split_once("'.\nDid you mean '")?;
    let proposed = proposed.strip_suffix("'?")?;
    Some(if is_near(name, proposed) {
        format!("there is no function '{name}'; did you mean '{proposed}'?")
    } else {
        format!("there is no function '{name}'; SHOW FUNCTIONS lists the functions there are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_proposed() {
        for (name, other) in [
            ("cont", "count"),
            ("lenght", "length"),
            ("Regexp_Replcae", "regexp_replace"),
            ("uper", "upper"),
        ] {
            assert!(is_near(name, other), "{name} {other}");
        }
        for (name, other) in [
            ("year", "var"),
            ("if", "sin"),
            ("ln2", "log10"),
            ("json_extract", "union_extract"),
        ] {
            assert!(!is_near(name, other), "{name} {other}");
        }
    }

    #[test]
    fn texts_of_other_errors_stay() {
        let text = no_function("Invalid function 'uper'.\nDid you mean 'upper'?");
        assert_eq!(
            text.as_deref(),
            Some("there is no function 'uper'; did you mean 'upper'?")
        );
        let text = no_function("Invalid function 'frobnicate'.\nDid you mean 'concat'?").unwrap();
        assert!(!text.contains("did you mean"), "{text}");
        assert_eq!(no_function("table 'x' not found"), None);
    }
}

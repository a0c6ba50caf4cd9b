//! Running of the records of one file.

use std::collections::BTreeMap;
use std::path::Path;

use sqllogictest::{Condition, Location, Record};

use super::answer::Answer;
use super::compare::{Expected, Letter, differ_in_ties_only};
use super::engines::{Halocline, Plain};
use super::known::Known;
use super::sql::{Kind, Sql};
use super::summary::{FileSummary, Skip};

/// The name of the engine in conditions of records.
const ENGINE: &str = "DataFusion";

/// Parts of errors for types that cannot be stored.
const NOT_STORED: [&str; 3] = [
    "cannot be stored",
    "which tables cannot store",
    "is not within decimal(38,38)",
];

/// Runs the records of a file over new databases.
///
/// # Panics
/// The file cannot be read.
pub(super) async fn run_file(directory: &Path, file: &str, known: &Known) -> FileSummary {
    let records = sqllogictest::parse_file::<Letter>(directory.join(file)).unwrap();
    let mut run = FileRun {
        directory,
        file,
        halocline: Halocline::new(),
        plain: Plain::new(),
        missing: BTreeMap::new(),
        known,
        summary: FileSummary::default(),
    };
    for record in &records {
        let is_left_out = |conditions: &[Condition]| {
            conditions.iter().any(|condition| match condition {
                Condition::OnlyIf { label } => label != ENGINE,
                Condition::SkipIf { label } => label == ENGINE,
            })
        };
        match record {
            Record::Statement {
                loc,
                conditions,
                sql,
                expected,
                ..
            } if !is_left_out(conditions) => run.run(loc, sql, &Expected::of_statement(expected)).await,
            Record::Query {
                loc,
                conditions,
                sql,
                expected,
                ..
            } if !is_left_out(conditions) => run.run(loc, sql, &Expected::of_query(expected)).await,
            Record::Halt { .. } => break,
            _ => {}
        }
    }
    run.summary
}

/// The outcome of a record.
enum Verdict {
    /// It was answered as expected.
    Agrees,
    /// It was not compared.
    Skipped(Skip),
    /// It was answered otherwise; the text says how.
    Differs(String),
}

struct FileRun<'a> {
    directory: &'a Path,
    file: &'a str,
    halocline: Halocline,
    plain: Plain,
    /// Tables that do not have what the records expect, and why.
    missing: BTreeMap<String, Skip>,
    known: &'a Known,
    summary: FileSummary,
}

impl FileRun<'_> {
    async fn run(&mut self, location: &Location, text: &str, expected: &Expected<'_>) {
        let verdict = self.verdict(text, expected).await;
        match verdict {
            Verdict::Agrees => self.summary.agrees(),
            Verdict::Skipped(skip) => self.summary.skips(skip),
            Verdict::Differs(how) => {
                let place = self.place(location);
                match self.known.reason(&place) {
                    Some(reason) => self.summary.differs_as_known(place, reason),
                    None => self.summary.differs(format!("{place}\n{text}\n{how}")),
                }
            }
        }
    }

    /// Returns the file and line of a record; of one in a file that is included, both files.
    fn place(&self, location: &Location) -> String {
        let file = Path::new(location.file());
        let file = file.strip_prefix(self.directory).unwrap_or(file);
        if file == Path::new(self.file) {
            format!("{}:{}", self.file, location.line())
        } else {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("{}/{name}:{}", self.file, location.line())
        }
    }

    async fn verdict(&mut self, text: &str, expected: &Expected<'_>) -> Verdict {
        let sql = Sql::new(text);
        match sql.kind {
            Kind::Explain => return Verdict::Skipped(Skip::Plan),
            Kind::Show => return Verdict::Skipped(Skip::Catalog),
            Kind::File => {
                if let Some(name) = sql.created {
                    self.missing.insert(name, Skip::TableOfFile);
                }
                return Verdict::Skipped(Skip::File);
            }
            Kind::Other => return Verdict::Skipped(Skip::Statement),
            Kind::Setting => {
                self.set(text).await;
                return Verdict::Skipped(Skip::Setting);
            }
            Kind::Query if sql.mentions("information_schema") => return Verdict::Skipped(Skip::Catalog),
            Kind::Query | Kind::Change | Kind::Create => {}
        }
        let missing = self
            .missing
            .iter()
            .find(|(name, _)| Some(*name) != sql.created.as_ref() && sql.mentions(name));
        if let Some((_, skip)) = missing {
            let skip = *skip;
            self.missing.extend(sql.changed_table().map(|name| (name, skip)));
            return Verdict::Skipped(skip);
        }
        let answer = self.answer(&sql).await;
        let mut plain = None;
        if sql.kind != Kind::Query || expected.is_error() || !expected.is_met(text, &answer) {
            plain = Some(self.plain.answer(text).await);
        }
        let verdict = match &plain {
            Some(plain) => judged(text, expected, &answer, plain),
            None => Verdict::Agrees,
        };
        if !expected.is_error() {
            self.note_table(&sql, &verdict);
        }
        verdict
    }

    /// Returns Halocline's answer. A table with a list of columns and a query is created and filled by two
    /// statements.
    async fn answer(&self, sql: &Sql<'_>) -> Answer {
        let answer = self.halocline.answer(&sql.with_tables_for_views()).await;
        let is_refused = |text: &str| text.starts_with("a column list without PRIMARY KEY");
        let (true, Some((creation, insert))) =
            (answer.error().is_some_and(is_refused), sql.creation_and_insert())
        else {
            return answer;
        };
        match self.halocline.answer(&creation).await {
            Answer::Error(error) => Answer::Error(error),
            _ => match self.halocline.answer(&insert).await {
                Answer::Done(_) => Answer::Done(None),
                other => other,
            },
        }
    }

    /// Changes a setting of both engines, if Halocline has it.
    async fn set(&mut self, text: &str) {
        if self.halocline.answer(text).await.error().is_none() {
            let _ = self.plain.answer(text).await;
        }
    }

    /// Notes whether the table that a statement creates or changes has what it should have.
    fn note_table(&mut self, sql: &Sql<'_>, verdict: &Verdict) {
        let skip = match (verdict, sql.kind) {
            (Verdict::Agrees, Kind::Query) => return,
            (Verdict::Agrees, Kind::Create) => {
                if let Some(name) = &sql.created {
                    self.missing.remove(name);
                }
                return;
            }
            (Verdict::Agrees, _) => return,
            (Verdict::Skipped(Skip::Build), _) => Skip::TableOfBuild,
            (Verdict::Skipped(Skip::BuildAnswer), _) => return,
            (Verdict::Skipped(Skip::Type), _) => Skip::TableOfType,
            (Verdict::Skipped(_) | Verdict::Differs(_), _) => Skip::TableOfStatement,
        };
        self.missing.extend(sql.changed_table().map(|name| (name, skip)));
    }
}

/// Judges an answer that has to be compared with that of plain DataFusion.
fn judged(text: &str, expected: &Expected<'_>, answer: &Answer, plain: &Answer) -> Verdict {
    let is_met = expected.is_met(text, answer) && !answer.is_panic();
    if is_met {
        // An error for another reason says nothing.
        return if expected.is_text_met(plain) {
            Verdict::Agrees
        } else {
            Verdict::Skipped(Skip::Build)
        };
    }
    let is_plain_met = expected.is_met(text, plain);
    let is_as_plain = expected.is_digest() && answer.is_like(plain);
    if is_as_plain || is_plain_met && differ_in_ties_only(text, answer, plain) {
        return Verdict::Agrees;
    }
    if !is_plain_met && answer.is_like(plain) && !answer.is_panic() {
        return Verdict::Skipped(match answer {
            Answer::Error(_) => Skip::Build,
            _ => Skip::BuildAnswer,
        });
    }
    match answer {
        Answer::Error(error) if error.contains(" is not supported; ") => Verdict::Skipped(Skip::Refused),
        Answer::Error(error) if NOT_STORED.iter().any(|text| error.contains(text)) => {
            Verdict::Skipped(Skip::Type)
        }
        Answer::Error(error) if error.contains("is not a value of type") => Verdict::Skipped(Skip::Overflow),
        Answer::Rows { .. } if text.contains("arrow_typeof") || answer.differs_in_types_only(plain) => {
            Verdict::Skipped(Skip::TypeName)
        }
        answer if answer.differs_in_zones_only(plain) => Verdict::Skipped(Skip::Zone),
        _ => Verdict::Differs(format!(
            "  expected{}: {}\n  halocline: {answer}\n  datafusion: {plain}",
            if is_plain_met {
                ""
            } else {
                " (not so by this build)"
            },
            described(expected)
        )),
    }
}

fn described(expected: &Expected<'_>) -> String {
    match expected {
        Expected::Success => "success".to_owned(),
        Expected::Count(count) => format!("{count} rows changed"),
        Expected::Rows { types, lines, .. } => format!("{types}\n    {}", lines.join("\n    ")),
        Expected::Error(error) => format!("error: {error}"),
    }
}

//! Counts of what came of the records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A reason for not comparing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Skip {
    /// `EXPLAIN`.
    Plan,
    /// `SET` and `RESET`.
    Setting,
    /// `SHOW`, `DESCRIBE` and `information_schema`.
    Catalog,
    /// `COPY` and `CREATE EXTERNAL TABLE`.
    File,
    /// Statements that Halocline does not have.
    Statement,
    /// A table of a file that the crate does not have.
    TableOfFile,
    /// A table that the build cannot create.
    TableOfBuild,
    /// A table of a type that cannot be stored.
    TableOfType,
    /// A table that a statement of another reason creates or changes.
    TableOfStatement,
    /// Plain DataFusion fails as well.
    Build,
    /// Plain DataFusion gives the same answer.
    BuildAnswer,
    /// A value of a type that cannot be stored.
    Type,
    /// A name or a letter of a type that is stored as another.
    TypeName,
    /// A timestamp with time zone.
    Zone,
    /// A clause that Halocline refuses.
    Refused,
    /// An overflow.
    Overflow,
}

impl Skip {
    /// All reasons, in the order in which they are listed.
    pub(super) const ALL: [Self; 16] = [
        Self::Plan,
        Self::Setting,
        Self::Catalog,
        Self::File,
        Self::Statement,
        Self::TableOfFile,
        Self::TableOfBuild,
        Self::TableOfType,
        Self::TableOfStatement,
        Self::Build,
        Self::BuildAnswer,
        Self::Type,
        Self::TypeName,
        Self::Zone,
        Self::Refused,
        Self::Overflow,
    ];

    /// Returns the reason as text.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Plan => "EXPLAIN: plans differ by design",
            Self::Setting => "SET and RESET: run, nothing to compare",
            Self::Catalog => "SHOW, DESCRIBE and information_schema: catalogs differ by design",
            Self::File => "COPY and CREATE EXTERNAL TABLE: the crate does not have the files",
            Self::Statement => "statements that Halocline does not have",
            Self::TableOfFile => "table not created: a file",
            Self::TableOfBuild => "table not created: plain DataFusion of this build cannot create it",
            Self::TableOfType => "table not created: a column's type cannot be stored",
            Self::TableOfStatement => "table not created or changed: a statement that is skipped or listed",
            Self::Build => "plain DataFusion of this build fails for another reason, as Halocline does",
            Self::BuildAnswer => "plain DataFusion of this build answers as Halocline does",
            Self::Type => "a type that cannot be stored",
            Self::TypeName => {
                "values agree, types or their names do not: dictionaries are stored as their values, texts as views, literals with a point are decimals"
            }
            Self::Zone => {
                "values agree but for the zone of `to_timestamp` and the like, which are timestamps with time zone"
            }
            Self::Refused => {
                "refused with a hint: a clause or statement that would be ignored, or is not there"
            }
            Self::Overflow => "an overflow, which is an error",
        }
    }
}

/// The outcomes of the records of a file.
#[derive(Debug, Default)]
pub(super) struct FileSummary {
    agreed: usize,
    skipped: BTreeMap<Skip, usize>,
    known: Vec<(String, &'static str)>,
    differences: Vec<String>,
}

impl FileSummary {
    pub(super) fn agrees(&mut self) {
        self.agreed += 1;
    }

    pub(super) fn skips(&mut self, skip: Skip) {
        *self.skipped.entry(skip).or_default() += 1;
    }

    pub(super) fn differs_as_known(&mut self, place: String, reason: &'static str) {
        self.known.push((place, reason));
    }

    pub(super) fn differs(&mut self, difference: String) {
        self.differences.push(difference);
    }
}

/// The outcomes of the records of all files.
pub(super) struct Summary {
    agreed: usize,
    files: usize,
    files_with_agreement: usize,
    skipped: BTreeMap<Skip, (usize, usize)>,
    known: BTreeMap<&'static str, usize>,
    occurrences: BTreeSet<String>,
    differences: Vec<String>,
    left_out: Vec<(&'static str, usize)>,
}

impl Summary {
    /// Creates an empty summary; `left_out` are numbers of files that are not run.
    pub(super) fn new(left_out: Vec<(&'static str, usize)>) -> Self {
        Self {
            agreed: 0,
            files: 0,
            files_with_agreement: 0,
            skipped: BTreeMap::new(),
            known: BTreeMap::new(),
            occurrences: BTreeSet::new(),
            differences: Vec::new(),
            left_out,
        }
    }

    /// Adds what came of a file.
    pub(super) fn add(&mut self, file: FileSummary) {
        self.files += 1;
        self.agreed += file.agreed;
        self.files_with_agreement += usize::from(file.agreed > 0);
        for (skip, number) in file.skipped {
            let (records, files) = self.skipped.entry(skip).or_default();
            *records += number;
            *files += 1;
        }
        for (place, reason) in file.known {
            *self.known.entry(reason).or_default() += 1;
            self.occurrences.insert(place);
        }
        self.differences.extend(file.differences);
    }

    /// Returns the numbers of records that were compared, and of files that have some.
    pub(super) fn compared(&self) -> (usize, usize) {
        (self.agreed, self.files_with_agreement)
    }

    /// Returns true if a record was skipped for this reason.
    pub(super) fn has_skipped(&self, skip: Skip) -> bool {
        self.skipped.contains_key(&skip)
    }

    /// Returns the places of known disagreements that occurred.
    pub(super) fn occurrences(&self) -> &BTreeSet<String> {
        &self.occurrences
    }

    /// Returns the disagreements that are not known.
    pub(super) fn differences(&self) -> &[String] {
        &self.differences
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} files run", self.files)?;
        for (reason, files) in &self.left_out {
            writeln!(f, "{files} files not run: {reason}")?;
        }
        writeln!(f, "\n| records | files | outcome |\n|---|---|---|")?;
        let (agreed, files) = self.compared();
        writeln!(f, "| {agreed} | {files} | agree |")?;
        for skip in Skip::ALL {
            if let Some((records, files)) = self.skipped.get(&skip) {
                writeln!(f, "| {records} | {files} | {} |", skip.text())?;
            }
        }
        for (reason, records) in &self.known {
            writeln!(f, "| {records} | | {reason} |")?;
        }
        Ok(())
    }
}

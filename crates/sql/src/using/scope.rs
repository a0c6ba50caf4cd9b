//! The relations of a FROM clause, and the columns that its joins merge.

use datafusion::sql::sqlparser::ast::{Expr, Ident};

use crate::syntax::call_of;

/// A relation of a FROM clause.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// The name that qualifies its columns.
    pub(super) qualifier: Vec<Ident>,
    /// The names of its columns; `None` if they are not known.
    pub(super) columns: Option<Vec<String>>,
}

/// A column of a relation, by the number of that.
pub(super) type Place = (usize, String);

/// A column that joins have merged.
#[derive(Debug, Clone)]
pub(super) struct Merged {
    pub(super) name: String,
    /// Columns the first of which that is not NULL is the value.
    pub(super) values: Vec<Place>,
    /// All columns that were merged, `values` among them.
    pub(super) members: Vec<Place>,
}

/// What the columns of a part of a FROM clause are called.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
    pub(super) merged: Vec<Merged>,
}

/// What a name without a qualifier refers to.
#[derive(Debug)]
pub(super) enum Found<'s> {
    Merged(&'s Merged),
    /// A column of one relation.
    Column(Place),
    /// Several columns.
    Ambiguous,
    /// No column of relations whose columns are known.
    Nothing,
    /// No column of those that are known, but there are others.
    NotKnown,
}

impl Scope {
    /// Finds a name without a qualifier.
    pub(super) fn find(&self, name: &str) -> Found<'_> {
        let mut merged = self.merged.iter().filter(|merged| merged.name == name);
        let merged = (merged.next(), merged.next());
        let mut others = self.places(name).filter(|place| !self.is_merged(place));
        let other = others.next();
        let is_known = self.relations.iter().all(|relation| relation.columns.is_some());
        match (merged, other, others.next()) {
            ((Some(merged), None), None, _) => Found::Merged(merged),
            ((None, _), Some(place), None) => Found::Column(place),
            ((None, _), None, _) if is_known => Found::Nothing,
            ((None, _), None, _) => Found::NotKnown,
            _ => Found::Ambiguous,
        }
    }

    /// Returns the columns of this name.
    fn places(&self, name: &str) -> impl Iterator<Item = Place> {
        let relations = self.relations.iter().enumerate();
        relations.flat_map(move |(number, relation)| {
            let columns = relation.columns.iter().flatten();
            columns
                .filter(move |column| *column == name)
                .map(move |column| (number, column.clone()))
        })
    }

    fn is_merged(&self, place: &Place) -> bool {
        self.merged.iter().any(|merged| merged.members.contains(place))
    }

    /// Returns the names of all columns, those of the left first; `None` if not all are known.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for (number, relation) in self.relations.iter().enumerate() {
            for column in relation.columns.as_ref()? {
                let place = (number, column.clone());
                let first = self.merged.iter().find(|merged| merged.members.contains(&place));
                if first.is_none_or(|merged| merged.members.first() == Some(&place)) {
                    names.push(column.clone());
                }
            }
        }
        Some(names)
    }

    /// Adds the relations of the right side of a join. Returns the number by which its relations moved.
    pub(super) fn append(&mut self, other: Scope) -> usize {
        let moved = self.relations.len();
        self.relations.extend(other.relations);
        let place = |(relation, column): Place| (relation + moved, column);
        self.merged.extend(other.merged.into_iter().map(|merged| Merged {
            name: merged.name,
            values: merged.values.into_iter().map(place).collect(),
            members: merged.members.into_iter().map(place).collect(),
        }));
        moved
    }

    /// Returns a column.
    pub(super) fn column(&self, (relation, column): &Place) -> Expr {
        let mut parts = match self.relations.get(*relation) {
            Some(relation) => relation.qualifier.clone(),
            None => Vec::new(),
        };
        parts.push(Ident::with_quote('"', column));
        Expr::CompoundIdentifier(parts)
    }

    /// Returns the first of some columns that is not NULL.
    pub(super) fn value(&self, places: &[Place]) -> Expr {
        match places {
            [only] => self.column(only),
            several => call_of("coalesce", several.iter().map(|place| self.column(place))),
        }
    }
}

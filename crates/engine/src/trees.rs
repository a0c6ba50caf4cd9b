//! Ordered trees of the open database: see [`Database::tree`].

use halocline_ordered::{OrderedIndex, TreeKind, create_tree, open_tree, open_tree_read_only, trees};
use halocline_sql::EngineError;

use crate::Database;

/// The prefix of the pool objects that hold trees. `halocline kv` uses the same.
const PREFIX: &str = "tree/";

impl Database {
    /// Creates an ordered tree in the pool and opens it. Each of its changes is durable on its own; it is not
    /// part of SQL transactions.
    ///
    /// # Errors
    /// There is a tree of that name; the pool cannot be written.
    pub fn create_tree(&self, name: &str, kind: TreeKind) -> Result<Box<dyn OrderedIndex>, EngineError> {
        Ok(create_tree(&self.engine.pool, &object(name), kind)?)
    }

    /// Opens an ordered tree of the pool through this handle, so that no second handle of the pool is needed.
    /// It is opened for reading if the database is. One handle at a time can write a tree.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use halocline_engine::{Database, DatabaseOptions};
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::create(&directory.path().join("p"), &DatabaseOptions::default())?;
    /// let stock = db.create_tree("stock", "lb".parse()?)?;
    /// stock.insert(17, 42)?;
    /// drop(stock);
    /// assert_eq!(db.tree("stock")?.get(17)?, Some(42));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no tree of that name, it is damaged, or another handle writes it.
    pub fn tree(&self, name: &str) -> Result<Box<dyn OrderedIndex>, EngineError> {
        let open = if self.engine.options.read_only {
            open_tree_read_only
        } else {
            open_tree
        };
        Ok(open(&self.engine.pool, &object(name))?)
    }

    /// Lists the ordered trees of the pool by name, with their kinds.
    ///
    /// # Errors
    /// The directory of the pool cannot be read.
    pub fn trees(&self) -> Result<Vec<(String, TreeKind)>, EngineError> {
        let all = trees(&self.engine.pool)?.into_iter();
        let named = all.filter_map(|(name, kind)| Some((name.strip_prefix(PREFIX)?.to_owned(), kind)));
        Ok(named.collect())
    }
}

fn object(name: &str) -> String {
    format!("{PREFIX}{name}")
}

//! Opening the store that a command line names: [`OpenStore`].

use halocline_pool::{Pool, PoolError};
use halocline_store::{Store, StoreError, Stores};
use halocline_terminal::CliError;
use halocline_terminal::pools::patiently;

use crate::args::KvArgs;
use crate::opening;

use super::list;

/// The store that the command line names.
pub(super) struct OpenStore {
    pool: Pool,
    pub(super) stores: Stores,
    pub(super) store: Store,
}

impl OpenStore {
    /// Opens the store for commands that read it.
    pub(super) fn to_read(args: &KvArgs) -> Result<Self, CliError> {
        let pool = opening::pool_to_read(args)?;
        let stores = Stores::open_reader(&pool)?;
        Self::find(args, pool, stores)
    }

    fn find(args: &KvArgs, pool: Pool, stores: Stores) -> Result<Self, CliError> {
        match stores.existing(&args.name) {
            Ok(store) => Ok(Self { pool, stores, store }),
            Err(StoreError::NoSuchStore { .. }) => {
                drop(stores);
                Err(missing(args, &list::names(&pool)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the store for commands that change it.
    pub(super) fn to_write(args: &KvArgs) -> Result<Self, CliError> {
        refuse_names_of_sql(&args.name)?;
        let pool = opening::pool(args)?;
        let stores = patiently(|| Stores::open(&pool))?;
        Self::find(args, pool, stores)
    }

    /// Opens the store to verify it.
    pub(super) fn to_check(args: &KvArgs) -> Result<Self, CliError> {
        let pool = opening::pool(args)?;
        let stores = stores_to_check(&pool)?;
        Self::find(args, pool, stores)
    }

    /// Makes all that was written survive power loss, and closes the store.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let Self { pool, stores, store } = self;
        drop((store, stores));
        Ok(pool.sync().map_err(StoreError::from)?)
    }
}

/// Opens the stores of a pool to verify them: where possible, so that nobody else can write meanwhile.
pub(super) fn stores_to_check(pool: &Pool) -> Result<Stores, StoreError> {
    match patiently(|| Stores::open(pool)) {
        Err(StoreError::Pool(PoolError::ReadOnly { .. } | PoolError::SlabInUse { .. })) => {
            Stores::open_reader(pool)
        }
        opened => opened,
    }
}

fn missing(args: &KvArgs, there: &[String]) -> CliError {
    let shown = args.pool.display();
    let others = if there.is_empty() {
        String::new()
    } else {
        format!("; it has {}", there.join(", "))
    };
    CliError::with_hint(
        format!("{shown} has no tree or store {}{others}", args.name),
        format!(
            "`halocline kv {shown} --name {} create` makes a tree, `create --store` a store",
            args.name
        ),
    )
}

/// Fails if the name is that of a store that holds a table. Such stores are changed by SQL only, as their
/// rows have a format of their own.
pub(super) fn refuse_names_of_sql(name: &str) -> Result<(), CliError> {
    if list::is_of_sql(name) {
        Err(CliError::with_hint(
            format!("the store {name} belongs to SQL"),
            "`halocline sql` changes the rows of tables; take a name that does not begin with sql/",
        ))
    } else {
        Ok(())
    }
}

//! The parts that benches of queries share: options from the environment, the runtime, tables of integers.

/// The failure of a bench.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// A column of integers: its name, the number of its values, and a factor that makes columns independent.
pub(crate) type IntegerColumn = (&'static str, u64, u64);

/// Returns a number from an environment variable.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// Runs a bench on two threads and prints its report.
///
/// # Errors
/// The bench fails.
pub(crate) fn print(bench: impl Future<Output = Result<String, Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(bench)?;
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes())?;
    Ok(())
}

/// Returns expressions over a series `v` for the values of the columns.
pub(crate) fn expressions(columns: &[IntegerColumn]) -> String {
    let columns = columns.iter().map(|(name, values, factor)| {
        format!("CAST((v * {factor} + v / 13) % 998244353 % {values} AS int) AS {name}")
    });
    columns.collect::<Vec<_>>().join(", ")
}

use halocline_columns::{Table, TableOptions, TableWriter};
use halocline_pool::{Pool, PoolOptions};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let from = Pool::open(&args[1], &PoolOptions::default())?;
    let to = Pool::create(&args[2], &PoolOptions::default())?;
    let table = Table::open(&from.snapshot()?, &args[3])?;
    let segment = &table.segments()[0];
    let txn = to.begin()?;
    let schema = table.schema();
    let mut writer = TableWriter::new(&txn, &args[3], schema.clone(), TableOptions::default())?;
    let mut row = 0;
    while row < segment.rows() {
        let end = (row + 65536).min(segment.rows());
        let arrays = (0..schema.fields().len()).map(|i| segment.column(i).scan(row..end)).collect::<Result<Vec<_>, _>>()?;
        let batch = arrow_array::RecordBatch::try_new(schema.clone(), arrays)?;
        writer.write(&batch)?;
        row = end;
    }
    writer.finish()?;
    txn.commit()?;
    Ok(())
}

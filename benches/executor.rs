//! Who executes a comparison: drift's own streams, or an operator inside a DataFusion plan?
//!
//! Two questions, each answered within one run:
//!
//! 1. What does a plan around the merge cost, when both sides come in key order? Medians of alternating runs.
//! 2. What does it take to bring sides into order that do not come in order, under a memory limit? Each run is a process
//!    of its own, so that its peak of resident memory is its own.
//!
//! `cargo run --release -p drift-benches --bin executor [ROWS]`; ROWS is 2,000,000 by default.

use std::fmt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::DataFusionError;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::FairSpillPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::expressions::col;
use datafusion_physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, collect};
use drift::compare::{CompareRequest, Control, Endpoints, KeyChoice, compare};
use drift::endpoint::{
    BATCH_ROWS, BatchStream, Border, Cost, Endpoint, Error, ErrorKind, Position, ReadRequest, Result, Scope,
    Snapshot, wire_schema,
};
use drift::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder, TableShape};
use futures::{StreamExt, TryStreamExt, stream};

const RUNS: usize = 9;
/// Every so many rows one differs.
const DIFFERS: usize = 10_000;
const MEMORY: [usize; 3] = [64 << 20, 256 << 20, 512 << 20];

// ------------------------------------------------------------------------------------------------------- the two tables
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    /// Ascending whole numbers.
    Int,
    /// Ascending text of 36 characters.
    Text,
    /// The same text in no order.
    Shuffled,
}

#[derive(Debug, Clone, Copy)]
struct Table {
    rows: usize,
    key: Key,
    source: bool,
}

impl Table {
    fn shape(self, ordered: bool) -> TableShape {
        let column = |name: &str, logical: LogicalType, order| ColumnShape {
            name: name.into(),
            engine_type: logical.to_string(),
            logical,
            nullable: Some(false),
            default: None,
            unreadable: None,
            order,
        };
        let (key, order) = match self.key {
            Key::Int => (LogicalType::Int { bits: 64, signed: true }, NativeOrder::Value),
            _ => (LogicalType::TEXT, NativeOrder::Bytes),
        };
        let key_list = vec!["k".to_string()];
        TableShape {
            engine: Engine::Postgres,
            columns: vec![
                column("k", key, order),
                column("name", LogicalType::TEXT, NativeOrder::Other),
                column("amount", LogicalType::Decimal { precision: 12, scale: 2 }, NativeOrder::Value),
                column("price", LogicalType::Float64, NativeOrder::Value),
                column("at", LogicalType::Timestamp { digits: 6, zoned: false }, NativeOrder::Value),
            ],
            primary_key: key_list.clone(),
            unique: vec![key_list.clone()],
            index_orders: if ordered { vec![key_list] } else { Vec::new() },
            may_be_ordered: false,
            row_estimate: Some(self.rows as u64),
            hidden_rows: None,
        }
    }

    fn schema(self) -> SchemaRef {
        let shape = self.shape(true);
        let columns: Vec<String> = shape.columns.iter().map(|c| c.name.clone()).collect();
        wire_schema(&shape, &columns).expect("a schema")
    }

    /// Rows `at..` in batches as every endpoint delivers them.
    fn batch(self, at: usize) -> RecordBatch {
        let rows = at..(at + BATCH_ROWS).min(self.rows);
        let text = |i: u64| format!("{:016x}-{:019x}", i, mixed(i));
        let key: ArrayRef = match self.key {
            Key::Int => Arc::new(Int64Array::from_iter_values(rows.clone().map(|i| i as i64))),
            Key::Text => Arc::new(StringArray::from_iter_values(rows.clone().map(|i| text(i as u64)))),
            // The two sides come in different orders; the rows are the same.
            Key::Shuffled => Arc::new(StringArray::from_iter_values(
                rows.clone().map(|i| text(mixed(self.stored(i) as u64))),
            )),
        };
        let stored = || rows.clone().map(|i| self.stored(i));
        let changed = |i: usize| i128::from(self.source && i % DIFFERS == 7);
        let amounts = stored().map(|i| (mixed(i as u64) % 1_000_000) as i128 + changed(i));
        let amounts =
            Decimal128Array::from_iter_values(amounts).with_precision_and_scale(38, 2).expect("a decimal");
        RecordBatch::try_new(
            self.schema(),
            vec![
                key,
                Arc::new(StringArray::from_iter_values(stored().map(|i| format!("customer {:011}", i)))),
                Arc::new(amounts),
                Arc::new(Float64Array::from_iter_values(stored().map(|i| mixed(i as u64) as f64 / 3.0))),
                Arc::new(TimestampMicrosecondArray::from_iter_values(stored().map(|i| i as i64 * 1_000_003))),
            ],
        )
        .expect("a batch")
    }

    /// Which row stands at this place.
    fn stored(self, place: usize) -> usize {
        if self.key == Key::Shuffled && !self.source { self.rows - 1 - place } else { place }
    }

    fn batches(self) -> impl Iterator<Item = RecordBatch> + Send {
        (0..self.rows).step_by(BATCH_ROWS).map(move |at| self.batch(at))
    }

    fn differing(self) -> usize {
        (0..self.rows).filter(|i| i % DIFFERS == 7).count()
    }
}

/// A bijection of 64-bit numbers without any order (the finaliser of splitmix64).
fn mixed(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

// ------------------------------------------------------------------------------------ rows in memory as drift's endpoint
type Rows = Arc<dyn Fn() -> BatchStream + Send + Sync>;

struct Memory {
    shape: TableShape,
    rows: Rows,
}

struct View(Rows);

#[async_trait]
impl Endpoint for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    async fn describe(&self) -> Result<TableShape> {
        Ok(self.shape.clone())
    }

    async fn open(&self, _shape: &TableShape, _request: ReadRequest) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(View(Arc::clone(&self.rows))))
    }

    fn explain(&self, _shape: &TableShape, _request: &ReadRequest, _scope: &Scope) -> Vec<String> {
        Vec::new()
    }
}

#[async_trait]
impl Snapshot for View {
    fn position(&self) -> Position {
        Position::default()
    }

    fn workers(&self) -> usize {
        1
    }

    async fn cuts(&self, _column: &str, _n: usize) -> Result<Vec<Border>> {
        Ok(Vec::new())
    }

    async fn scan(&self, _scope: &Scope) -> Result<BatchStream> {
        Ok((self.0)())
    }

    fn cost(&self) -> Arc<Cost> {
        Arc::default()
    }
}

fn rows_of(batches: Vec<RecordBatch>) -> Rows {
    Arc::new(move || stream::iter(batches.clone()).map(Ok).boxed())
}

fn generated(table: Table) -> Rows {
    Arc::new(move || stream::iter(table.batches()).map(Ok).boxed())
}

/// The keys that differ, found by drift's own streams.
async fn differing(shape: TableShape, rows: [Rows; 2], memory: usize) -> Result<Vec<String>> {
    let endpoints: Endpoints =
        rows.map(|rows| Arc::new(Memory { shape: shape.clone(), rows }) as Arc<dyn Endpoint>);
    let key = KeyChoice::Columns(vec!["k".into()]);
    let request = CompareRequest { key, limit: usize::MAX, memory, ..CompareRequest::default() };
    let outcome = compare(&endpoints, &request, Arc::new(Control::default())).await?;
    if let Some(left) = outcome.not_compared.first() {
        return Err(Error::new(ErrorKind::Data, left.reason.clone()));
    }
    let tally = outcome.tally.ok_or_else(|| Error::new(ErrorKind::Data, "nothing was compared"))?;
    Ok(tally.differences.iter().map(|d| d.key["k"].to_string()).collect())
}

// ------------------------------------------------------------------------------------------- the same inside DataFusion
/// A leaf (no inputs) that reads a table, or the operator (two inputs) that merges what comes in key order.
#[derive(Clone)]
struct Node {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    shape: TableShape,
    rows: Option<Rows>,
    properties: Arc<PlanProperties>,
}

impl Node {
    fn new(
        schema: SchemaRef,
        shape: TableShape,
        rows: Option<Rows>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Arc<Node> {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Arc::new(Node { inputs, shape, rows, properties })
    }

    fn key_diff(shape: TableShape, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Arc<Node> {
        Node::new(Arc::new(Schema::new(vec![Field::new("key", DataType::Utf8, false)])), shape, None, inputs)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DisplayAs for Node {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Node {
    fn name(&self) -> &str {
        if self.rows.is_some() { "TableExec" } else { "KeyDiffExec" }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> datafusion_common::Result<TreeNodeRecursion>,
    ) -> datafusion_common::Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
    ) -> datafusion_common::Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Node { inputs, ..(*self).clone() }))
    }

    fn execute(
        &self,
        _: usize,
        context: Arc<TaskContext>,
    ) -> datafusion_common::Result<SendableRecordBatchStream> {
        let schema = self.schema();
        if let Some(rows) = &self.rows {
            let rows = rows().map_err(|e| DataFusionError::External(Box::new(e)));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        let mut sides = Vec::new();
        for input in &self.inputs {
            let read = input.execute(0, Arc::clone(&context))?;
            let read = read.map_err(|e| Error::new(ErrorKind::Data, e.to_string())).boxed();
            let once = Mutex::new(Some(read));
            sides.push(Arc::new(move || {
                once.lock().expect("a lock").take().unwrap_or_else(|| stream::empty().boxed())
            }) as Rows);
        }
        let sides: [Rows; 2] =
            sides.try_into().map_err(|_| DataFusionError::Internal("not two inputs".into()))?;
        let (shape, out) = (self.shape.clone(), Arc::clone(&schema));
        let found = async move {
            let keys = differing(shape, sides, 64 << 20).await;
            let keys = keys.map_err(|e| DataFusionError::External(Box::new(e)))?;
            Ok(RecordBatch::try_new(out, vec![Arc::new(StringArray::from(keys)) as ArrayRef])?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(found))))
    }
}

async fn in_plan(
    shape: TableShape,
    tables: [Table; 2],
    rows: [Rows; 2],
    sort: Option<usize>,
) -> Result<usize> {
    let failed = |e: DataFusionError| Error::new(ErrorKind::Data, e.to_string());
    let mut inputs = Vec::new();
    for (table, rows) in tables.into_iter().zip(rows) {
        let mut input: Arc<dyn ExecutionPlan> =
            Node::new(table.schema(), shape.clone(), Some(rows), Vec::new());
        if sort.is_some() {
            let by = PhysicalSortExpr::new_default(col("k", &table.schema()).map_err(failed)?);
            input = Arc::new(SortExec::new(LexOrdering::new([by]).expect("one column"), input));
        }
        inputs.push(input);
    }
    let mut context = TaskContext::default();
    if let Some(pool) = sort {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool)));
        context = context.with_runtime(runtime.build_arc().map_err(failed)?);
    }
    let batches = collect(Node::key_diff(shape, inputs), Arc::new(context)).await.map_err(failed)?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

// ------------------------------------------------------------------------------------------------------------ measuring
/// CPU time of this process so far, all threads (fields 14 and 15 of /proc/self/stat, in hundredths of a second).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name")..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("ticks");
    Duration::from_millis(10 * (ticks(12) + ticks(13)))
}

/// The greatest resident memory so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("kB") / 1024
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn ordered(rows: usize, key: Key) {
    let tables = [true, false].map(|source| Table { rows, key, source });
    let shape = tables[0].shape(true);
    let held = tables.map(|table| rows_of(table.batches().collect()));
    let want = tables[0].differing();
    let (mut wall, mut spent) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for run in 0..=RUNS {
        // Each way goes first every other time.
        for way in if run % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (started, before) = (Instant::now(), cpu());
            let found = if way == 0 {
                differing(shape.clone(), held.clone(), 64 << 20).await.expect("a comparison").len()
            } else {
                in_plan(shape.clone(), tables, held.clone(), None).await.expect("a comparison")
            };
            assert_eq!(found, want);
            // The first run warms up.
            if run > 0 {
                wall[way].push(started.elapsed().as_secs_f64());
                spent[way].push((cpu() - before).as_secs_f64());
            }
        }
    }
    let [wall, spent] = [wall, spent].map(|both| both.map(median));
    println!(
        "{key:?} keys in order, {rows} rows a side: bare {:.2} s ({:.2} CPU s), in a plan {:.2} s ({:.2} CPU s): {:.2} of the time, {:.2} of the CPU",
        wall[0],
        spent[0],
        wall[1],
        spent[1],
        wall[1] / wall[0],
        spent[1] / spent[0]
    );
}

/// One run in this process, told on one line.
async fn unordered(way: &str, rows: usize, memory: usize) {
    let tables = [true, false].map(|source| Table { rows, key: Key::Shuffled, source });
    let sides = tables.map(generated);
    let started = Instant::now();
    let found = if way == "drift" {
        differing(tables[0].shape(false), sides, memory).await.map(|keys| keys.len())
    } else {
        in_plan(tables[0].shape(true), tables, sides, Some(memory)).await
    };
    let (wall, spent) = (started.elapsed().as_secs_f64(), cpu().as_secs_f64());
    match found {
        Ok(found) => {
            assert_eq!(found, tables[0].differing());
            println!("{wall:.1} s, {spent:.1} CPU s, peak {} MiB", peak());
        }
        Err(error) => println!("fails after {wall:.1} s, peak {} MiB: {error}", peak()),
    }
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|n| n.parse().ok());
    if let Some("drift" | "datafusion") = args.first().map(String::as_str) {
        let (rows, memory) = number(1).zip(number(2)).expect("rows and bytes");
        return unordered(&args[0], rows, memory).await;
    }
    let rows = number(0).unwrap_or(2_000_000);
    for key in [Key::Int, Key::Text] {
        ordered(rows, key).await;
    }
    for memory in MEMORY {
        for way in ["drift", "datafusion"] {
            let this = std::env::current_exe().expect("this program");
            let out = Command::new(this).args([way, &rows.to_string(), &memory.to_string()]).output();
            let out = out.expect("a run");
            let told = String::from_utf8_lossy(if out.status.success() { &out.stdout } else { &out.stderr });
            let told: String = told.trim().chars().take(300).collect();
            println!("text keys in no order, {rows} rows a side, {} MiB, {way}: {told}", memory >> 20);
        }
    }
}

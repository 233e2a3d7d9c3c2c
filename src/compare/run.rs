//! Runs a comparison: describe, plan, open, cut, merge, sum up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;

use super::confirm::{Confirm, Confirmation, Known, Suspects};
use super::control::{Control, Stop};
use super::cutoff::Age;
use super::merge::merge;
use super::outcome::{CompareOutcome, Coverage, NotCompared, SideOutcome};
use super::plan::{Plan, plan};
use super::records::Wanted;
use super::request::CompareRequest;
use super::sample::{self, Bound, Draw, Population, Sampled};
use super::side::{Delivery, SideError, SideErrorKind, SideReader};
use super::tally::{Side, Tally};
use crate::endpoint::repair::Repair;
use crate::endpoint::{Border, Endpoint, Error, ErrorKind, ReadRequest, Scope, Snapshot};
use crate::value::recipe::Recipe;
use crate::value::shape::TableShape;

/// Below this number of rows more than one connection does not pay.
const ROWS_WORTH_A_THREAD: u64 = 100_000;
/// What part of the memory suspects may take, per list.
const SHARE_OF_SUSPECTS: usize = 32;
/// Batches that may wait between a reader and the kernel.
const WAITING_BATCHES: usize = 2;

/// The two tables of a comparison.
pub type Endpoints = [Arc<dyn Endpoint>; 2];

/// What `--explain` shows.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Source and target.
    pub names: [String; 2],
    /// The engines' guesses of the number of rows.
    pub row_estimates: [Option<u64>; 2],
    /// The rules.
    pub recipe: Recipe,
    /// The engines' own type names by compared column.
    pub engine_types: Vec<(String, String)>,
    /// Why rows are read as they are.
    pub reason: String,
    /// The statements or files of each side, for one range.
    pub statements: [Vec<String>; 2],
    /// How many ranges may be read at once.
    pub threads: usize,
    /// What would be left out.
    pub not_compared: Vec<NotCompared>,
}

async fn describe(endpoints: &Endpoints) -> Result<[TableShape; 2], Error> {
    let (source, target) =
        futures::future::try_join(endpoints[0].describe(), endpoints[1].describe()).await?;
    Ok([source, target])
}

fn read_request(plan: &Plan, side: Side, request: &CompareRequest, workers: usize) -> ReadRequest {
    let at = side as usize;
    ReadRequest {
        columns: plan.columns(side),
        filter: if side == Side::Source {
            request.source_where.clone()
        } else {
            request.target_where.clone()
        },
        order: if plan.deliveries[at] == Delivery::Ordered { plan.keys[at].clone() } else { Vec::new() },
        workers,
    }
}

fn threads(plan: &Plan, shapes: &[TableShape; 2], request: &CompareRequest) -> usize {
    let rows = shapes.iter().filter_map(|s| s.row_estimate).max().unwrap_or(0);
    let worth = (rows / ROWS_WORTH_A_THREAD).clamp(1, 1024) as usize;
    if plan.divisible { request.threads.clamp(1, worth) } else { 1 }
}

/// The plan of a comparison, without running it.
pub async fn explain(endpoints: &Endpoints, request: &CompareRequest) -> Result<Explanation, Error> {
    let shapes = describe(endpoints).await?;
    let names = [endpoints[0].name(), endpoints[1].name()];
    let plan = plan(&shapes[0], &shapes[1], names, request)?;
    let statements = [Side::Source, Side::Target].map(|side| {
        let at = side as usize;
        endpoints[at].explain(&shapes[at], &read_request(&plan, side, request, 1), &Scope::Whole)
    });
    Ok(Explanation {
        names: names.map(str::to_string),
        row_estimates: [shapes[0].row_estimate, shapes[1].row_estimate],
        engine_types: engine_types(&plan.recipe, &shapes),
        reason: plan.reason(),
        statements,
        threads: threads(&plan, &shapes, request),
        not_compared: plan.not_compared,
        recipe: plan.recipe,
    })
}

fn engine_types(recipe: &Recipe, shapes: &[TableShape; 2]) -> Vec<(String, String)> {
    let name = |shape: &TableShape, column: &str| {
        shape.column(column).map_or(String::new(), |c| c.engine_type.clone())
    };
    let rules = recipe.key.iter().chain(&recipe.values);
    rules.map(|rule| (name(&shapes[0], &rule.name), name(&shapes[1], &rule.target_name))).collect()
}

/// Compares two tables. An error means that nothing was compared; whatever goes wrong later is part of the outcome.
pub async fn compare(
    endpoints: &Endpoints,
    request: &CompareRequest,
    control: Arc<Control>,
) -> Result<CompareOutcome, Error> {
    let started = Instant::now();
    let shapes = describe(endpoints).await?;
    let names = [endpoints[0].name(), endpoints[1].name()];
    let mut plan = plan(&shapes[0], &shapes[1], names, request)?;
    for (expected, shape) in control.expected.iter().zip(&shapes) {
        expected.store(shape.row_estimate.unwrap_or(0), Ordering::Relaxed);
    }
    let recipe = Arc::new(plan.recipe.clone());
    let wanted = wanted(endpoints, &shapes, &recipe, request)?;
    let workers = threads(&plan, &shapes, request);
    let requests = [Side::Source, Side::Target].map(|side| read_request(&plan, side, request, workers));
    let mut snapshots = open(endpoints, &shapes, &requests).await?;
    let mut opened = Instant::now();
    let confirm = request.confirm.filter(|_| endpoints.iter().any(|e| !e.is_immutable()));
    let draw = drawn(request, &plan, &snapshots, &recipe, &shapes).await?;
    let age = match &request.cutoff {
        Some(cutoff) => Some(Age::of(cutoff, &plan, snapshots.each_ref().map(AsRef::as_ref), names).await?),
        None => None,
    };

    let (tally, error) = loop {
        let run = Run {
            endpoints,
            shapes: &shapes,
            snapshots: &snapshots,
            requests: &requests,
            request,
            control: &control,
            recipe: &recipe,
            wanted: &wanted,
            draw: &draw,
            confirms: confirm.is_some(),
            age,
            // Two fifths are left for the batches on their way and for the merge of the runs.
            sort_memory: request.memory / 5 * 3,
        };
        let (tally, error) = run.once(&plan).await;
        match error {
            // The promise of an order was not kept: sort that side, and read both again. A read that was given up may
            // have cost its snapshot the connection, so that only new ones are sure to be whole.
            Some(SideError { side, kind: SideErrorKind::OutOfOrder }) => {
                plan.deliveries[side as usize] = Delivery::Sorted;
                plan.divisible = false;
                control.begin_again();
                snapshots = open(endpoints, &shapes, &requests).await?;
                opened = Instant::now();
            }
            error => break (tally, error),
        }
    };
    let positions = [snapshots[0].position(), snapshots[1].position()];
    let mut tally = tally;
    tally.finish();

    let mut not_compared = std::mem::take(&mut plan.not_compared);
    let mut coverage = Coverage::Complete;
    let so_far = compared_so_far(&tally);
    if let Some(SideError { side, kind: SideErrorKind::Failed(message) }) = &error {
        coverage = Coverage::Partial;
        not_compared.push(NotCompared::rows(format!("{}: {message}; {so_far}", side.word())));
    } else if let Some(stop) = control.stopped() {
        coverage = Coverage::Partial;
        let why = match stop {
            Stop::Deadline => "--deadline passed before the end",
            Stop::Enough => "ended by --stop-after",
            Stop::Failed => "the run failed",
        };
        not_compared.push(NotCompared::rows(format!("{why}; {so_far}")));
    } else if !tally.has_drift()
        && tally.same_within_rules + tally.in_flight == 0
        && tally.digests[0] != tally.digests[1]
    {
        coverage = Coverage::Partial;
        not_compared.push(NotCompared::rows(
            "drift's own check failed: no row differs, yet the digests of the two sides do; please report this",
        ));
    }
    let mut sides = [0, 1].map(|at| {
        let mut side = SideOutcome {
            name: names[at].to_string(),
            rows: Some(tally.digests[at].rows),
            read: control.rows[at].load(Ordering::Relaxed),
            position: positions[at].clone(),
            read_on_at: control.seams([Side::Source, Side::Target][at]),
            workers: if plan.divisible { snapshots[at].workers().min(workers) } else { 1 },
            ..SideOutcome::default()
        };
        side.add(&snapshots[at].cost());
        side
    });
    // A server need not keep the first views while the others are awaited.
    drop(snapshots);
    let mut confirmation = None;
    let mut unconfirmed = false;
    if let Some(confirm) = confirm.filter(|_| tally.different() > 0) {
        let ended = error.is_some() || control.stopped().is_some_and(|stop| stop != Stop::Enough);
        let confirmed = if ended {
            Err("the run ended before".to_string())
        } else {
            let again = Again {
                endpoints,
                shapes: &shapes,
                request,
                recipe: &recipe,
                wanted: &wanted,
                draw: &draw,
                plan: &plan,
                confirm,
            };
            let suspects = tally.suspects.take().unwrap_or_else(|| Suspects::within(0));
            again.run(&tally, suspects, opened, &control, &mut sides).await
        };
        match confirmed {
            Ok((settled, how)) => {
                tally = settled;
                confirmation = Some(how);
            }
            Err(why) => {
                unconfirmed = true;
                coverage = Coverage::Partial;
                let reason = format!("the differences are not confirmed, some may be late: {why}");
                not_compared.push(NotCompared::rows(reason));
            }
        }
    }
    let mut outcome = CompareOutcome::new(sides, Some(plan.recipe.clone()), Some(tally), coverage, request);
    outcome.confirmation = confirmation;
    outcome.sample = request.sample.filter(|_| draw.is_sample()).map(|wish| Sampled {
        wish,
        bound: outcome.tally.as_ref().map_or(Bound::of(0, 0), |tally| {
            let different = tally.different();
            Bound::of(different, tally.equal + different + tally.in_flight)
        }),
        of: population(&draw, &outcome.sides[0], &shapes[0], request),
    });
    outcome.unconfirmed = unconfirmed;
    outcome.engine_types = engine_types(&plan.recipe, &shapes);
    outcome.findings = std::mem::take(&mut plan.findings);
    outcome.not_compared = not_compared;
    outcome.reason = plan.reason();
    outcome.elapsed = started.elapsed();
    Ok(outcome)
}

/// One snapshot of each side.
async fn open(
    endpoints: &Endpoints,
    shapes: &[TableShape; 2],
    requests: &[ReadRequest; 2],
) -> Result<[Arc<dyn Snapshot>; 2], Error> {
    let [first, second] = requests.clone();
    let (source, target) = futures::future::try_join(
        endpoints[0].open(&shapes[0], first),
        endpoints[1].open(&shapes[1], second),
    )
    .await?;
    Ok([Arc::from(source), Arc::from(target)])
}

/// What is to be written down of every difference.
fn wanted(
    endpoints: &Endpoints,
    shapes: &[TableShape; 2],
    recipe: &Recipe,
    request: &CompareRequest,
) -> Result<Wanted, Error> {
    let repair = if request.repair {
        let name = endpoints[1].name();
        let refused = |why: String| Error::new(ErrorKind::Usage, format!("--repair: {name}: {why}"));
        let table = endpoints[1]
            .table()
            .ok_or_else(|| refused("only a table of a database can be repaired by statements".into()))?;
        Some(Arc::new(Repair::of(table, &shapes[1], recipe).map_err(refused)?))
    } else {
        None
    };
    Ok(Wanted { listing: request.list_all, repair })
}

/// Draws the sample that was asked for; everything otherwise.
async fn drawn(
    request: &CompareRequest,
    plan: &Plan,
    snapshots: &[Arc<dyn Snapshot>; 2],
    recipe: &Recipe,
    shapes: &[TableShape; 2],
) -> Result<Draw, Error> {
    let Some(sample) = request.sample else { return Ok(Draw::default()) };
    let columns = match [plan.keys[0].first(), plan.keys[1].first()] {
        [Some(source), Some(target)] if plan.divisible => Some([source.as_str(), target.as_str()]),
        _ => None,
    };
    let estimate = shapes.iter().filter_map(|s| s.row_estimate).max();
    sample::draw(sample, snapshots.each_ref().map(AsRef::as_ref), recipe, columns, estimate).await
}

/// What a sample was drawn from.
fn population(
    draw: &Draw,
    source: &SideOutcome,
    shape: &TableShape,
    request: &CompareRequest,
) -> Option<Population> {
    match draw.cells {
        None => Some(Population::Counted(source.read)),
        // The statistics know the whole table alone.
        Some(_) if request.source_where.is_some() => None,
        Some(_) => shape.row_estimate.map(Population::Estimated),
    }
}

/// The readings that confirm what the first one found.
struct Again<'a> {
    endpoints: &'a Endpoints,
    shapes: &'a [TableShape; 2],
    request: &'a CompareRequest,
    recipe: &'a Arc<Recipe>,
    wanted: &'a Wanted,
    draw: &'a Draw,
    plan: &'a Plan,
    confirm: Confirm,
}

impl Again<'_> {
    /// What to read again. Files have nothing to look keys up by; what is no suspect counts for nothing.
    fn scopes(&self, known: &Known, first: &Tally, files: [bool; 2]) -> ([Vec<Scope>; 2], bool) {
        // A row that a look-up misses would look like one that is gone. SQLite converts what is compared with a column
        // to its declared type in tables only, and only those have a primary key.
        let found = [Side::Source, Side::Target].into_iter().all(|side| {
            let (shape, key) = (&self.shapes[side as usize], &self.plan.keys[side as usize]);
            let is_untyped = |k: &String| shape.column(k).is_some_and(|c| c.logical.is_untyped());
            files[side as usize] || key.iter().all(|k| !is_untyped(k) || shape.primary_key.contains(k))
        });
        let (mut scopes, by_key) = known.scopes(self.plan, &first.ranges, found);
        for (scopes, is_file) in scopes.iter_mut().zip(files) {
            if is_file {
                *scopes = vec![Scope::Whole];
            }
        }
        (scopes, by_key)
    }

    /// Reads what differed again until it has settled or all readings are made. The error says why it is unconfirmed.
    async fn run(
        &self,
        first: &Tally,
        suspects: Suspects,
        opened: Instant,
        control: &Control,
        sides: &mut [SideOutcome; 2],
    ) -> Result<(Tally, Confirmation), String> {
        let memory = self.request.memory / SHARE_OF_SUSPECTS;
        let mut known = Known::new(suspects);
        let files = self.endpoints.each_ref().map(|endpoint| endpoint.is_immutable());
        let (mut scopes, by_key) = self.scopes(&known, first, files);
        // What takes more than some look-ups is read once more only, after the time that all readings would have taken.
        let Confirm { rounds, wait } = self.confirm;
        let (rounds, pause) =
            if by_key && files == [false; 2] { (rounds, wait) } else { (1, wait.saturating_mul(rounds)) };
        let mut plan = self.plan.clone();
        plan.divisible = false;
        for (delivery, is_file) in plan.deliveries.iter_mut().zip(files) {
            if by_key && !is_file {
                *delivery = Delivery::Sorted;
            }
        }
        let requests = [Side::Source, Side::Target].map(|side| read_request(&plan, side, self.request, 1));
        control.looking_again.store(true, Ordering::Relaxed);
        let control = Arc::new(Control::new(None, control.deadline()));
        let mut before = opened;
        for round in 1..=rounds {
            tokio::select! {
                () = tokio::time::sleep(pause.saturating_sub(before.elapsed())) => {}
                () = until(control.deadline()) => return Err("--deadline passed".into()),
            }
            let snapshots = open(self.endpoints, self.shapes, &requests).await.map_err(|e| e.message)?;
            before = Instant::now();
            let run = Run {
                endpoints: self.endpoints,
                shapes: self.shapes,
                snapshots: &snapshots,
                requests: &requests,
                request: self.request,
                control: &control,
                recipe: self.recipe,
                wanted: self.wanted,
                draw: self.draw,
                confirms: true,
                age: None,
                // What the first reading took is not all given back to the system.
                sort_memory: self.request.memory / 5 * 3 / 4,
            };
            let tally = run.tally().suspecting(memory).confirming(known);
            let (tally, error) = run.part(&plan, scopes.clone(), tally).await;
            for (side, snapshot) in sides.iter_mut().zip(&snapshots) {
                side.add(&snapshot.cost());
            }
            let mut tally = match (tally, error) {
                (_, Some(SideError { side, kind: SideErrorKind::Failed(why) })) => {
                    return Err(format!("{}: {why}", side.word()));
                }
                (_, Some(SideError { side, kind: SideErrorKind::OutOfOrder })) => {
                    return Err(format!("{}: rows came in another order than before", side.word()));
                }
                (Some(_), None) if control.stopped().is_some() => return Err("--deadline passed".into()),
                (Some(tally), None) => tally,
                (None, None) => return Err("nothing was read".into()),
            };
            known = tally.end_of_sieve().ok_or("nothing was looked for")?;
            if round == rounds || known.late() == known.len() {
                let late = known.late();
                tally.completes(first, late, known.is_complete());
                return Ok((tally, Confirmation { rounds: round, wait: pause, late }));
            }
            (scopes, _) = self.scopes(&known, first, files);
        }
        Err("no reading was asked for".into())
    }
}

/// How far a run came, for the reader; key values identify rows and are no secret of the row.
fn compared_so_far(tally: &Tally) -> String {
    match &tally.last_key {
        None => "no row was compared".into(),
        Some(key) => {
            let text: Vec<String> = key
                .iter()
                .map(|(name, value)| {
                    format!("{name} = {}", value.as_str().map_or_else(|| "NULL".into(), str::to_string))
                })
                .collect();
            format!("compared until then: {} rows, up to {}", tally.equal + tally.changed, text.join(", "))
        }
    }
}

/// One attempt, with one plan.
struct Run<'a> {
    endpoints: &'a Endpoints,
    shapes: &'a [TableShape; 2],
    snapshots: &'a [Arc<dyn Snapshot>; 2],
    requests: &'a [ReadRequest; 2],
    request: &'a CompareRequest,
    control: &'a Arc<Control>,
    recipe: &'a Arc<Recipe>,
    wanted: &'a Wanted,
    draw: &'a Draw,
    /// Whether what differs is looked at again.
    confirms: bool,
    /// Which rows are too young to be judged.
    age: Option<Age>,
    /// What the sorts of both sides may hold together, in bytes.
    sort_memory: usize,
}

impl Run<'_> {
    fn tally(&self) -> Tally {
        let request = self.request;
        Tally::new(Arc::clone(self.recipe), request.limit, request.mask, request.keys_only)
            .recording(self.wanted.clone())
            .exemplifying(request.context)
            .sparing(self.age)
    }

    /// Reads and merges everything. The tally holds what was settled, up to the first part that failed.
    async fn once(&self, plan: &Plan) -> (Tally, Option<SideError>) {
        let parts = self.parts(plan).await;
        let memory = self.request.memory / SHARE_OF_SUSPECTS;
        let empty = |memory| if self.confirms { self.tally().suspecting(memory) } else { self.tally() };
        let count = parts.len();
        let mut done_parts: Vec<Option<Tally>> = (0..count).map(|_| None).collect();
        let mut first_error: Option<(usize, SideError)> = None;
        let mut tasks = JoinSet::new();
        for (at, scopes) in parts.into_iter().enumerate() {
            let part = self.part(plan, scopes, empty(memory / count));
            tasks.spawn(async move { (at, part.await) });
        }
        while let Some(done) = tasks.join_next().await {
            let (at, error) = match done {
                Ok((at, (tally, error))) => {
                    done_parts[at] = tally;
                    (at, error)
                }
                Err(e) => (0, Some(crashed(&e))),
            };
            if let Some(error) = error
                && first_error.as_ref().is_none_or(|(first, _)| at < *first)
            {
                first_error = Some((at, error));
            }
        }
        self.control.forgive();
        let mut total = empty(memory);
        for part in done_parts.into_iter().flatten() {
            total.append(part);
        }
        (total, first_error.map(|(_, error)| error))
    }

    /// Reads and merges some scopes of both sides into `tally`, which is lost only if the kernel crashes.
    fn part(
        &self,
        plan: &Plan,
        scopes: [Vec<Scope>; 2],
        mut tally: Tally,
    ) -> impl Future<Output = (Option<Tally>, Option<SideError>)> + Send + 'static {
        let readers = [Side::Source, Side::Target].map(|side| Arc::new(self.reader(plan, side)));
        let control = Arc::clone(self.control);
        let keyless = self.recipe.key.is_empty();
        async move {
            // The readers end with this set, should the run be given up.
            let mut reading = JoinSet::new();
            let [source, target] = [0, 1].map(|_| channel(WAITING_BATCHES));
            let feeds = [source.1, target.1];
            for ((reader, scopes), send) in readers.into_iter().zip(scopes).zip([source.0, target.0]) {
                reading.spawn(reader.read(scopes, send));
            }
            let deadline = control.deadline();
            let mut merging = tokio::task::spawn_blocking(move || {
                let [source, target] = feeds;
                let error = merge(source, target, keyless, &mut tally, &control).err();
                if error.is_some() {
                    control.fail();
                }
                (tally, error)
            });
            let merged = tokio::select! {
                merged = &mut merging => merged,
                () = until(deadline) => {
                    // The kernel may be waiting for a slow server: without readers its feeds end.
                    reading.abort_all();
                    merging.await
                }
            };
            let reader_crashed = reading_crashed(&mut reading).await;
            match merged {
                Ok((tally, error)) => (Some(tally), error.or(reader_crashed)),
                Err(e) => (None, Some(crashed(&e))),
            }
        }
    }

    fn reader(&self, plan: &Plan, side: Side) -> SideReader {
        let at = side as usize;
        let sorts = plan.deliveries.iter().filter(|d| **d == Delivery::Sorted).count().max(1);
        SideReader::new(
            side,
            Arc::clone(&self.endpoints[at]),
            self.shapes[at].clone(),
            self.requests[at].clone(),
            Arc::clone(self.recipe),
            plan.keys[at].clone(),
            plan.deliveries[at],
            self.sort_memory / sorts,
            self.request.retries,
            Arc::clone(self.control),
            self.draw.threshold,
            self.confirms,
            Arc::clone(&self.snapshots[at]),
        )
    }

    /// What is read side by side: ranges of the whole, or of the drawn cells, in key order.
    async fn parts(&self, plan: &Plan) -> Vec<[Vec<Scope>; 2]> {
        let Some(cells) = &self.draw.cells else {
            let borders = self.borders(plan).await;
            return self.scopes(plan, &borders).into_iter().map(|pair| pair.map(|s| vec![s])).collect();
        };
        let workers =
            self.snapshots[0].workers().min(self.snapshots[1].workers()).min(self.requests[0].workers);
        let chunks = cells.chunks(cells.len().div_ceil(workers.max(1)).max(1));
        let column = |at: usize| plan.keys[at].first().cloned().unwrap_or_default();
        chunks.map(|cells| [0, 1].map(|at| Draw::scopes(cells, &column(at)))).collect()
    }

    /// Where to cut the tables into ranges that are read at once; for balance only, every cut is right.
    async fn borders(&self, plan: &Plan) -> Vec<Border> {
        let workers =
            self.snapshots[0].workers().min(self.snapshots[1].workers()).min(self.requests[0].workers);
        if !plan.divisible || workers < 2 {
            return Vec::new();
        }
        let Some(column) = plan.keys[0].first() else { return Vec::new() };
        let mut borders = self.snapshots[0].cuts(column, workers).await.unwrap_or_default();
        borders.dedup();
        borders.truncate(workers - 1);
        borders
    }

    /// The same ranges on both sides, half-open, open at both ends.
    fn scopes(&self, plan: &Plan, borders: &[Border]) -> Vec<[Scope; 2]> {
        if borders.is_empty() {
            return vec![[Scope::Whole, Scope::Whole]];
        }
        (0..=borders.len())
            .map(|i| {
                [0, 1].map(|at| Scope::KeyRange {
                    column: plan.keys[at].first().cloned().unwrap_or_default(),
                    from: i.checked_sub(1).map(|i| borders[i].clone()),
                    to: borders.get(i).cloned(),
                })
            })
            .collect()
    }
}

fn crashed(error: &tokio::task::JoinError) -> SideError {
    SideError::internal(Side::Source, format!("a worker crashed: {error}"))
}

/// Waits until then; for ever without a deadline.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the readers of a part; a reader that panicked must not look like the end of its rows.
async fn reading_crashed(reading: &mut JoinSet<()>) -> Option<SideError> {
    let mut crashed = None;
    while let Some(done) = reading.join_next().await {
        if let Err(e) = done
            && e.is_panic()
        {
            crashed = Some(SideError::internal(Side::Source, format!("a reader crashed: {e}")));
        }
    }
    crashed
}

/// Compares the schemas only.
pub async fn compare_schemas(
    endpoints: &Endpoints,
    request: &CompareRequest,
) -> Result<CompareOutcome, Error> {
    let started = Instant::now();
    let shapes = describe(endpoints).await?;
    let names = [endpoints[0].name().to_string(), endpoints[1].name().to_string()];
    let pairing = crate::schema::pair(&shapes[0], &shapes[1], &request.map);
    for column in &request.exclude {
        if shapes.iter().all(|s| s.column(column).is_none()) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("--exclude: neither side has a column {column:?}"),
            ));
        }
    }
    let sides = names.map(|name| SideOutcome { name, ..SideOutcome::default() });
    let mut outcome = CompareOutcome::new(sides, None, None, Coverage::Complete, request);
    outcome.findings = crate::schema::findings(&shapes[0], &shapes[1], &pairing)
        .into_iter()
        .filter(|f| f.column.as_ref().is_none_or(|c| !request.exclude.contains(c)))
        .collect();
    outcome.elapsed = started.elapsed();
    Ok(outcome)
}

//! What the catalogue says about a table, view or query. Runs inside a transaction that the caller began.

use std::collections::HashMap;

use sqlx::{Column, Row, ValueRef};

use super::session::{Session, TextRow};
use super::sql::{identifier, literal, source};
use super::types::{self, PgType, Types};
use crate::config::address::Object;
use crate::endpoint::{Cost, Error, ErrorKind, Result};
use crate::value::shape::{ColumnShape, Engine, TableShape};

/// All tables that this user may read, without the parts of partitioned ones.
pub(super) const SIBLINGS: &str = "select n.nspname, c.relname from pg_catalog.pg_class c \
     join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
     where c.relkind in ('r', 'p', 'f') and not c.relispartition and n.nspname <> 'information_schema' \
     and n.nspname not like 'pg\\_%' and pg_catalog.has_schema_privilege(n.oid, 'usage') order by 1, 2";

/// What lies behind the object, beyond its shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nature {
    /// All rows lie in this server's own tables, so that its transaction ids tell whether they changed.
    pub(super) stored: bool,
}

/// Describes the object; `name` stands in errors.
pub(super) async fn describe(
    session: &mut Session,
    cost: &Cost,
    name: &str,
    object: &Object,
) -> Result<(TableShape, Nature)> {
    match object {
        Object::Table { schema, name: table } => {
            let relation = resolve(session, cost, name, schema.as_deref(), table).await?;
            describe_relation(session, cost, name, object, &relation).await
        }
        Object::Query(_) => describe_query(session, cost, name, object).await,
    }
}

struct Relation {
    oid: String,
    kind: String,
    user: String,
}

fn usage(name: &str, text: String) -> Error {
    Error::new(ErrorKind::Usage, format!("{name}: {text}"))
}

/// A value that the query always gives.
fn text(row: &TextRow, at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

fn yes(row: &TextRow, at: usize) -> bool {
    text(row, at) == "t"
}

async fn resolve(
    session: &mut Session,
    cost: &Cost,
    name: &str,
    schema: Option<&str>,
    table: &str,
) -> Result<Relation> {
    let place = match schema {
        Some(schema) => format!("n.nspname = {}", literal(schema)),
        None => "pg_table_is_visible(c.oid)".to_string(),
    };
    let query = format!(
        "select c.oid, c.relkind, current_user, has_schema_privilege(n.oid, 'USAGE'), n.nspname
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.relname = {} and {place}",
        literal(table)
    );
    let rows = session.rows(cost, &query).await?;
    let Some(row) = rows.first() else {
        return Err(missing(session, cost, name, schema, table).await?);
    };
    let relation = Relation { oid: text(row, 0), kind: text(row, 1), user: text(row, 2) };
    if !matches!(relation.kind.as_str(), "r" | "v" | "m" | "p" | "f") {
        return Err(usage(name, format!("{table} is neither a table nor a view")));
    }
    if !yes(row, 3) {
        let schema = identifier(&text(row, 4));
        return Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{name}: user {user} may not look into schema {schema}; run: grant usage on schema {schema} to {}",
                identifier(&relation.user),
                user = relation.user
            ),
        ));
    }
    Ok(relation)
}

/// The error for a table that is not there, with what the user may have meant.
async fn missing(
    session: &mut Session,
    cost: &Cost,
    name: &str,
    schema: Option<&str>,
    table: &str,
) -> Result<Error> {
    let query = format!(
        "select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where lower(c.relname) in (lower({table}), lower({table}) || 's', rtrim(lower({table}), 's'))
           and c.relkind in ('r', 'v', 'm', 'p', 'f')
           and n.nspname !~ '^pg_(toast|temp)'
         order by c.relname = {table} desc, 1 limit 5",
        table = literal(table)
    );
    let similar: Vec<String> = session.rows(cost, &query).await?.iter().map(|row| text(row, 0)).collect();
    let place = match schema {
        Some(schema) => format!("in schema {}", identifier(schema)),
        None => "in the search path".to_string(),
    };
    let hint = if similar.is_empty() {
        "check the database and the spelling (names are taken verbatim, without folding)".to_string()
    } else {
        format!("did you mean {}?", similar.join(" or "))
    };
    Ok(usage(name, format!("there is no table {} {place}; {hint}", identifier(table))))
}

/// Makes `tree`: the relation with all its partitions or inheriting tables.
fn tree(oid: &str) -> String {
    format!(
        "with recursive tree(oid) as (select {oid}::oid union select i.inhrelid from pg_inherits i join tree t on i.inhparent = t.oid)"
    )
}

async fn describe_relation(
    session: &mut Session,
    cost: &Cost,
    name: &str,
    object: &Object,
    relation: &Relation,
) -> Result<(TableShape, Nature)> {
    let rows = session.rows(cost, &columns_query(session.version(), &relation.oid)).await?;
    let oids: Vec<String> = rows.iter().map(|row| text(row, 2)).collect();
    let known = fetch_types(session, cost, &oids).await?;
    let view = matches!(relation.kind.as_str(), "v" | "f");
    let columns: Vec<ColumnShape> =
        rows.iter().map(|row| column(row, &known, view, &relation.user)).collect();
    if !columns.is_empty() && columns.iter().all(|c| c.unreadable.is_some()) {
        return Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{name}: user {user} may not read any column; run: grant select on {} to {}",
                source(object),
                identifier(&relation.user),
                user = relation.user
            ),
        ));
    }

    // One row: the members of the tree, the foreign ones, their rows (as the planner reckons: rows per page by today's
    // pages), and whether one with rows was never analysed.
    let members = format!(
        "{} select count(*), count(*) filter (where c.relkind = 'f'),
                sum(case when c.relpages > 0 and c.relkind <> 'f'
                    then greatest(c.reltuples, 0) / c.relpages
                         * (pg_relation_size(c.oid) / current_setting('block_size')::int)
                    else greatest(c.reltuples, 0) end) filter (where c.relkind <> 'p')::bigint,
                bool_or(case when c.relkind = 'f' then c.reltuples <= 0
                    else (c.reltuples < 0 or c.relpages = 0) and pg_relation_size(c.oid) > 0 end)
                    filter (where c.relkind <> 'p'),
                obj_description({}, 'pg_class')
         from tree t join pg_class c on c.oid = t.oid",
        tree(&relation.oid),
        relation.oid
    );
    let members = session.rows(cost, &members).await?;
    let members = members.first().cloned().unwrap_or_default();
    let foreign = text(&members, 1) != "0";
    let inherits = relation.kind == "r" && text(&members, 0) != "1";
    let stored = matches!(relation.kind.as_str(), "r" | "p" | "m") && !foreign;
    let row_estimate = match relation.kind.as_str() {
        "v" => None,
        _ if yes(&members, 3) => None,
        _ => text(&members, 2).parse().ok(),
    };

    let indexes = session.rows(cost, &indexes_query(session.version(), &relation.oid)).await?;
    let mut shape = TableShape {
        engine: Engine::Postgres,
        columns,
        primary_key: Vec::new(),
        unique: Vec::new(),
        index_orders: Vec::new(),
        comment: members.get(4).cloned().flatten(),
        may_be_ordered: false,
        row_estimate,
        hidden_rows: None,
    };
    add_indexes(&mut shape, &indexes, inherits, foreign);
    shape.hidden_rows = hidden_rows(session, cost, object, &shape, &relation.user).await?;
    Ok((shape, Nature { stored }))
}

/// Name, type as written, type, modifier, NOT NULL, default, identity, generated, readable, binary collation.
fn columns_query(version: u32, oid: &str) -> String {
    let generated = if version >= 120_000 { "a.attgenerated" } else { "''" };
    let provider = if version >= 150_000 { "db.datlocprovider" } else { "'c'" };
    format!(
        "select a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid, a.atttypmod,
                a.attnotnull and not exists (select from pg_constraint k where k.conrelid = a.attrelid
                    and k.contype = 'n' and not k.convalidated and k.conkey[1] = a.attnum),
                pg_get_expr(d.adbin, d.adrelid), a.attidentity, {generated},
                has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
                current_setting('server_encoding') in ('UTF8', 'SQL_ASCII') and case l.collprovider
                    when 'd' then {provider} = 'b' or ({provider} = 'c' and db.datcollate in ('C', 'POSIX'))
                    when 'b' then true
                    when 'c' then l.collcollate in ('C', 'POSIX')
                    else false end
         from pg_attribute a
         join pg_database db on db.datname = current_database()
         left join pg_collation l on l.oid = a.attcollation
         left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where a.attrelid = {oid} and a.attnum > 0 and not a.attisdropped
         order by a.attnum"
    )
}

fn column(row: &TextRow, known: &Types, view: bool, user: &str) -> ColumnShape {
    let name = text(row, 0);
    let oid = text(row, 2).parse().unwrap_or(0);
    let logical = known.logical(oid, text(row, 3).parse().unwrap_or(-1));
    let order = types::order(&logical, known.base_name(oid), yes(row, 9));
    let expression = row.get(5).cloned().flatten();
    let default = match (text(row, 6).as_str(), text(row, 7).as_str()) {
        ("a", _) => Some("generated always as identity".into()),
        ("d", _) => Some("generated by default as identity".into()),
        (_, "s") => expression.map(|e| format!("generated always as ({e}) stored")),
        (_, "v") => expression.map(|e| format!("generated always as ({e}) virtual")),
        _ => expression,
    };
    let unreadable = (!yes(row, 8)).then(|| {
        format!("no SELECT privilege on column {name} for user {user}; grant it or exclude the column")
    });
    ColumnShape {
        engine_type: text(row, 1),
        logical,
        // Views and foreign tables promise nothing about NULL.
        nullable: (!view).then(|| !(yes(row, 4) || known.not_null(oid))),
        default,
        unreadable,
        order,
        name,
    }
}

/// The types with everything below them: domains' bases, arrays' elements.
async fn fetch_types(session: &mut Session, cost: &Cost, oids: &[String]) -> Result<Types> {
    if oids.is_empty() {
        return Ok(Types::default());
    }
    let query = format!(
        "with recursive used(oid) as (
             select unnest(array[{}]::oid[])
             union
             select b.below from used u join pg_type t on t.oid = u.oid
             cross join lateral (values (t.typbasetype), (t.typelem)) b(below) where b.below <> 0)
         select t.oid, n.nspname, t.typname, t.typtype, t.typcategory,
                t.typelem, t.typbasetype, t.typtypmod, t.typnotnull, scale('0'::money::numeric)
         from used u join pg_type t on t.oid = u.oid join pg_namespace n on n.oid = t.typnamespace",
        oids.join(", ")
    );
    let rows = session.rows(cost, &query).await?;
    let number = |row: &TextRow, at: usize| text(row, at).parse::<u32>().unwrap_or(0);
    let by_oid: HashMap<u32, PgType> = rows
        .iter()
        .map(|row| {
            let found = PgType {
                schema: text(row, 1),
                name: text(row, 2),
                kind: text(row, 3),
                category: text(row, 4),
                element: number(row, 5),
                base: number(row, 6),
                base_modifier: text(row, 7).parse().unwrap_or(-1),
                not_null: yes(row, 8),
            };
            (number(row, 0), found)
        })
        .collect();
    let money_digits = rows.first().and_then(|row| text(row, 9).parse().ok()).unwrap_or(2);
    Ok(Types { by_oid, money_digits })
}

/// One row per column of each valid, complete index on plain columns: index, primary, unique, column, and whether the
/// index can deliver `ORDER BY column` at this place.
fn indexes_query(version: u32, oid: &str) -> String {
    // INCLUDE came with PostgreSQL 11.
    let keys = if version >= 110_000 { "i.indnkeyatts" } else { "i.indnatts" };
    format!(
        "select i.indexrelid, i.indisprimary, i.indisunique, a.attname,
                m.amname = 'btree' and i.indoption[k.at] = 0 and o.opcdefault and i.indcollation[k.at] = a.attcollation
                    and (not i.indcheckxmin or age(i.xmin) > txid_snapshot_xmax(txid_current_snapshot())
                                                            - txid_snapshot_xmin(txid_current_snapshot()))
         from pg_index i
         join pg_class c on c.oid = i.indexrelid
         join pg_am m on m.oid = c.relam
         cross join lateral generate_series(0, {keys} - 1) k(at)
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[k.at]
         join pg_opclass o on o.oid = i.indclass[k.at]
         where i.indrelid = {oid} and i.indisvalid and i.indisready and i.indislive
           and i.indpred is null and i.indexprs is null
         order by i.indisprimary desc, i.indexrelid, k.at"
    )
}

/// `inherits`: other tables' rows show in this one, and no index of it covers them. `foreign`: some rows lie elsewhere,
/// so that an order would have to be made by sorting.
fn add_indexes(shape: &mut TableShape, rows: &[TextRow], inherits: bool, foreign: bool) {
    for index in rows.chunk_by(|a, b| a.first() == b.first()) {
        let names: Vec<String> = index.iter().map(|row| text(row, 3)).collect();
        if yes(&index[0], 1) {
            shape.primary_key = names.clone();
        }
        if yes(&index[0], 2) && !inherits && !shape.unique.contains(&names) {
            shape.unique.push(names.clone());
        }
        let ordered: Vec<String> =
            index.iter().take_while(|row| yes(row, 4)).map(|row| text(row, 3)).collect();
        if !ordered.is_empty() && !inherits && !foreign && !shape.index_orders.contains(&ordered) {
            shape.index_orders.push(ordered);
        }
    }
}

async fn describe_query(
    session: &mut Session,
    cost: &Cost,
    name: &str,
    object: &Object,
) -> Result<(TableShape, Nature)> {
    // One row of NULLs: the simple protocol shows the columns of a result only together with a row.
    let probe = format!(
        "select q.*, current_user::text from (select 1) one left join (select * from {} limit 0) q on true",
        source(object)
    );
    let rows = session.raw_rows(cost, &probe).await?;
    let Some(row) = rows.first() else {
        return Err(usage(name, "the query cannot be described; it must be one SELECT".into()));
    };
    let (user, found) = match row.columns().split_last() {
        Some((_, found)) if row.len() > 1 => {
            let value = row.try_get_raw(row.len() - 1).ok().filter(|v| !v.is_null());
            (value.and_then(|v| v.as_str().ok().map(str::to_string)).unwrap_or_default(), found)
        }
        _ => return Err(usage(name, "the query has no columns".into())),
    };
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = found.iter().find(|c| !seen.insert(c.name())) {
        return Err(usage(
            name,
            format!("the query has two columns called {}; give one an alias", twice.name()),
        ));
    }
    let oids: Vec<u32> = found.iter().map(|c| c.type_info().oid().map_or(0, |oid| oid.0)).collect();
    let origins: Vec<Option<(u32, i16)>> =
        found.iter().map(|c| c.relation_id().map(|oid| oid.0).zip(c.relation_attribute_no())).collect();
    let names: Vec<String> = found.iter().map(|c| c.name().to_string()).collect();

    // Columns that come straight from a table have its type with modifier (precision, length) or domain; the protocol
    // tells the base type only.
    let written: Vec<String> = oids
        .iter()
        .zip(&origins)
        .enumerate()
        .map(|(at, (oid, origin))| {
            let (relation, attribute) = origin.unwrap_or((0, 0));
            format!("({at}, {oid}::oid, {relation}::oid, {attribute})")
        })
        .collect();
    let query = format!(
        "select format_type(coalesce(a.atttypid, v.oid), coalesce(a.atttypmod, -1)),
                coalesce(a.atttypmod, -1), coalesce(a.atttypid, v.oid)
         from (values {}) v(at, oid, relation, attribute)
         left join pg_attribute a on a.attrelid = v.relation and a.attnum = v.attribute
         order by v.at",
        written.join(", ")
    );
    let described = session.rows(cost, &query).await?;
    let used: Vec<String> = described.iter().map(|row| text(row, 2)).collect();
    let known = fetch_types(session, cost, &used).await?;
    let columns = names
        .into_iter()
        .zip(&described)
        .map(|(name, row)| {
            let oid = text(row, 2).parse().unwrap_or(0);
            let logical = known.logical(oid, text(row, 1).parse().unwrap_or(-1));
            let order = types::order(&logical, known.base_name(oid), false);
            ColumnShape {
                name,
                engine_type: text(row, 0),
                logical,
                nullable: None,
                default: None,
                unreadable: None,
                order,
            }
        })
        .collect();
    let mut shape = TableShape {
        engine: Engine::Postgres,
        columns,
        primary_key: Vec::new(),
        unique: Vec::new(),
        index_orders: Vec::new(),
        comment: None,
        may_be_ordered: false,
        row_estimate: None,
        hidden_rows: None,
    };
    shape.hidden_rows = hidden_rows(session, cost, object, &shape, &user).await?;
    Ok((shape, Nature { stored: false }))
}

/// Whether row security filters what this user sees, through views and queries too: with `row_security` off the server
/// refuses to plan exactly those statements.
async fn hidden_rows(
    session: &mut Session,
    cost: &Cost,
    object: &Object,
    shape: &TableShape,
    user: &str,
) -> Result<Option<String>> {
    let readable: Vec<String> =
        shape.columns.iter().filter(|c| c.unreadable.is_none()).map(|c| identifier(&c.name)).collect();
    let plan = format!("explain select {} from {}", readable.join(", "), source(object));
    // Whatever else is wrong with the statement shows without the setting.
    session.rows(cost, &plan).await?;
    match session.attempt(cost, &format!("set local row_security = off; {plan}")).await? {
        Ok(_) => Ok(None),
        Err(e) if e.kind == ErrorKind::Refused => {
            Ok(Some(format!("row security is active for user {user}: rows may be hidden")))
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: &str, primary: &str, unique: &str, name: &str, ordered: &str) -> TextRow {
        [index, primary, unique, name, ordered].iter().map(|s| Some(s.to_string())).collect()
    }

    fn shape() -> TableShape {
        TableShape {
            engine: Engine::Postgres,
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique: Vec::new(),
            index_orders: Vec::new(),
            comment: None,
            may_be_ordered: false,
            row_estimate: None,
            hidden_rows: None,
        }
    }

    #[test]
    fn an_order_ends_at_the_first_column_that_the_index_holds_otherwise() {
        let rows = [
            row("1", "t", "t", "a", "t"),
            row("1", "t", "t", "b", "f"),
            row("1", "t", "t", "c", "t"),
            row("2", "f", "f", "d", "f"),
        ];
        let mut found = shape();
        add_indexes(&mut found, &rows, false, false);
        assert_eq!(found.primary_key, ["a", "b", "c"]);
        assert_eq!(found.unique, [["a", "b", "c"]]);
        assert_eq!(found.index_orders, [["a"]]);
        let mut found = shape();
        add_indexes(&mut found, &rows, true, false);
        assert_eq!((found.primary_key.len(), found.unique.len(), found.index_orders.len()), (3, 0, 0));
    }
}

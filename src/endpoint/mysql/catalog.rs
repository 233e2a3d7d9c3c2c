//! What a table looks like, from the server's catalogue.

use sqlx::mysql::MySqlRow;

use super::session::{Session, named, text};
use super::types::{Declared, interpret};
use super::{failure, sql};
use crate::config::address::Object;
use crate::endpoint::{Error, ErrorKind, Result, Sibling};
use crate::value::shape::{ColumnShape, Engine, LogicalType, NativeOrder, TableShape};

const LOOKING: &str = "reading the catalogue";

/// An index that delivers rows in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OrderedIndex {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

/// A described table, with what only this engine needs to know.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub(super) shape: TableShape,
    pub(super) indexes: Vec<OrderedIndex>,
    /// The storage engine's name, if it cannot give a consistent snapshot.
    pub(super) without_snapshots: Option<String>,
}

/// Describes a table or view.
pub(super) async fn table(session: &mut Session, schema: Option<&str>, table: &str) -> Result<Described> {
    let schema = match schema {
        Some(schema) => schema.to_string(),
        None => session.value(LOOKING, "select database()").await?.ok_or_else(|| {
            let text = "the URL names no database; write mysql://host/database#table or #database.table";
            Error::new(ErrorKind::Usage, format!("{}: {text}", session.name()))
        })?,
    };
    let this = format!("table_schema = {} and table_name = {}", sql::quoted(&schema), sql::quoted(table));
    let about = format!(
        "select t.engine, t.table_rows, t.table_type, \
         (select e.transactions from information_schema.engines e where e.engine = t.engine), t.table_comment \
         from information_schema.tables t where {this}"
    );
    let rows = session.rows(LOOKING, &about).await?;
    let Some(about) = rows.first() else {
        return Err(missing(session, &schema, table).await?);
    };
    let is_view = text(about, 2).is_some_and(|kind| kind.ends_with("VIEW"));
    let engine = text(about, 0);
    let without_snapshots = engine.clone().filter(|_| text(about, 3).as_deref() != Some("YES"));

    let json = json_columns(session, &schema, table).await?;
    let listed = session
        .rows(
            LOOKING,
            &format!(
                "select column_name, column_type, is_nullable, column_default, character_set_name, \
                 collation_name, privileges, ordinal_position, generation_expression \
                 from information_schema.columns where {this} order by ordinal_position"
            ),
        )
        .await?;
    let mariadb = session.mariadb;
    let mut columns: Vec<ColumnShape> = listed.iter().map(|row| column(row, &json, mariadb)).collect();
    let positions: Vec<usize> = listed.iter().filter_map(|row| text(row, 7)?.parse().ok()).collect();
    if columns.iter().all(|c| c.unreadable.is_some()) {
        return Err(Error::new(
            ErrorKind::Refused,
            format!("{}: no SELECT privilege on any column of {schema}.{table}; grant it", session.name()),
        ));
    }
    let hidden = hidden_columns(session, &schema, table, &columns, &positions).await?;
    let columns_are_hidden = !hidden.is_empty();
    columns.extend(hidden);

    let mut described = Described {
        shape: TableShape {
            engine: Engine::MySql,
            columns,
            primary_key: Vec::new(),
            unique: Vec::new(),
            index_orders: Vec::new(),
            // A view's comment is the word VIEW.
            comment: text(about, 4).filter(|comment| !comment.is_empty() && !is_view),
            may_be_ordered: false,
            row_estimate: text(about, 1).and_then(|n| n.parse().ok()),
            hidden_rows: None,
        },
        indexes: Vec::new(),
        without_snapshots,
    };
    if !is_view {
        let full = format!("show index from {}.{}", sql::name(&schema), sql::name(table));
        let parts: Vec<IndexPart> =
            session.rows(LOOKING, &full).await?.iter().filter_map(index_part).collect();
        let ordered = engine.as_deref() == Some("InnoDB");
        add_indexes(&mut described, &parts, ordered, columns_are_hidden);
    }
    Ok(described)
}

fn column(row: &MySqlRow, json: &[String], mariadb: bool) -> ColumnShape {
    let name = text(row, 0).unwrap_or_default();
    let engine_type = text(row, 1).unwrap_or_default();
    let (charset, collation) = (text(row, 4), text(row, 5));
    let declared = Declared {
        text: &engine_type,
        charset: charset.as_deref(),
        collation: collation.as_deref(),
        json: json.contains(&name),
    };
    let (logical, order) = interpret(&declared);
    let readable = text(row, 6).is_none_or(|p| p.split(',').any(|p| p.eq_ignore_ascii_case("select")));
    ColumnShape {
        logical,
        order,
        nullable: text(row, 2).map(|n| n == "YES"),
        default: match text(row, 8).filter(|expression| !expression.is_empty()) {
            Some(expression) => Some(format!("generated always as ({expression})")),
            // MariaDB writes the default NULL as an expression.
            None => text(row, 3).filter(|d| !(mariadb && d == "NULL")),
        },
        unreadable: (!readable).then(|| format!("no SELECT privilege on column {name}")),
        name,
        engine_type,
    }
}

/// The columns that MariaDB's `json` made: text whose check says so.
async fn json_columns(session: &mut Session, schema: &str, table: &str) -> Result<Vec<String>> {
    if !session.mariadb {
        return Ok(Vec::new());
    }
    let statement = format!(
        "select check_clause from information_schema.check_constraints \
         where constraint_schema = {} and table_name = {}",
        sql::quoted(schema),
        sql::quoted(table)
    );
    let rows = match session.try_rows(&statement).await {
        Ok(rows) => rows,
        // Before 10.3 there is no such list, and before 10.2 no json.
        Err(e) if matches!(failure::number(&e), Some(1109 | 1054)) => Vec::new(),
        Err(e) => return Err(session.failed(LOOKING, &e)),
    };
    Ok(rows.iter().filter_map(|row| checked_as_json(&text(row, 0)?)).collect())
}

fn checked_as_json(clause: &str) -> Option<String> {
    let quoted = clause.strip_prefix("json_valid(`")?.strip_suffix("`)")?;
    let name = quoted.replace("``", "`");
    // A lone backtick would mean that the clause says more than one name.
    (sql::name(&name) == format!("`{quoted}`")).then_some(name)
}

/// The catalogue leaves out columns on which the user has no privilege at all; they must not go unnoticed.
async fn hidden_columns(
    session: &mut Session,
    schema: &str,
    table: &str,
    visible: &[ColumnShape],
    positions: &[usize],
) -> Result<Vec<ColumnShape>> {
    let whole = format!("select * from {}.{} limit 0", sql::name(schema), sql::name(table));
    match session.try_rows(&whole).await {
        Ok(_) => return Ok(Vec::new()),
        Err(e) if matches!(failure::number(&e), Some(1142 | 1143)) => {}
        Err(e) => return Err(session.failed(&format!("looking at {schema}.{table}"), &e)),
    }
    let last = positions.last().copied().unwrap_or(0);
    let mut labels: Vec<String> =
        (1..last).filter(|at| !positions.contains(at)).map(|at| format!("(hidden column {at})")).collect();
    // Nothing tells whether columns follow the last visible one, unless a visible column explains the refusal.
    if labels.is_empty() && visible.iter().all(|c| c.unreadable.is_none()) {
        labels.push(format!("(hidden columns behind {last})"));
    }
    let hidden = |name: String| ColumnShape {
        unreadable: Some("no privilege on it, so that the server hides even its name".into()),
        name,
        engine_type: String::new(),
        logical: LogicalType::Other,
        nullable: None,
        default: None,
        order: NativeOrder::Other,
    };
    Ok(labels.into_iter().map(hidden).collect())
}

/// One column of one index.
#[derive(Debug, Clone, PartialEq)]
struct IndexPart {
    index: String,
    unique: bool,
    /// The column; `None` for an expression or a prefix of a column.
    column: Option<String>,
    ascending: bool,
    tree: bool,
    /// The optimizer may not use it.
    ignored: bool,
}

fn index_part(row: &MySqlRow) -> Option<IndexPart> {
    Some(IndexPart {
        index: named(row, "Key_name")?,
        unique: named(row, "Non_unique")? == "0",
        column: named(row, "Column_name").filter(|_| named(row, "Sub_part").is_none()),
        ascending: named(row, "Collation").as_deref() == Some("A"),
        tree: named(row, "Index_type").as_deref() == Some("BTREE"),
        ignored: named(row, "Ignored").as_deref() == Some("YES")
            || named(row, "Visible").as_deref() == Some("NO"),
    })
}

fn add_indexes(described: &mut Described, parts: &[IndexPart], ordered: bool, columns_are_hidden: bool) {
    for index in parts.chunk_by(|a, b| a.index == b.index) {
        let first = &index[0];
        let all: Option<Vec<String>> = index.iter().map(|p| p.column.clone()).collect();
        // With hidden columns an index may be shown without its last ones, and then it is not unique.
        if let Some(columns) = all.filter(|_| first.unique && !columns_are_hidden) {
            if first.index == "PRIMARY" {
                described.shape.primary_key = columns.clone();
            }
            described.shape.unique.push(columns);
        }
        if ordered && first.tree && !first.ignored {
            let columns: Vec<String> =
                index.iter().take_while(|p| p.ascending).map_while(|p| p.column.clone()).collect();
            if !columns.is_empty() {
                described.shape.index_orders.push(columns.clone());
                described.indexes.push(OrderedIndex { name: first.index.clone(), columns });
            }
        }
    }
}

/// All tables of the session's database, or of all databases where it has none.
pub(super) async fn siblings(session: &mut Session) -> Result<Vec<Sibling>> {
    let statement = "select table_schema, table_name, table_schema = database() from information_schema.tables \
        where table_type in ('BASE TABLE', 'SYSTEM VERSIONED') and table_schema = coalesce(database(), table_schema) \
        and table_schema not in ('information_schema', 'mysql', 'performance_schema', 'sys') order by 1, 2";
    let rows = session.rows("listing the tables", statement).await?;
    let siblings = rows.iter().filter_map(|row| {
        let (schema, name) = (text(row, 0)?, text(row, 1)?);
        let is_default = text(row, 2).as_deref() == Some("1");
        let object = Object::Table { schema: (!is_default).then(|| schema.clone()), name: name.clone() };
        Some(Sibling { schema, name, object })
    });
    Ok(siblings.collect())
}

/// The error for a table that is not there, with names that look like it.
async fn missing(session: &mut Session, schema: &str, table: &str) -> Result<Error> {
    let statement = format!(
        "select table_name from information_schema.tables where table_schema = {} order by 1 limit 10000",
        sql::quoted(schema)
    );
    let names: Vec<String> =
        session.rows(LOOKING, &statement).await?.iter().filter_map(|row| text(row, 0)).collect();
    let near: Vec<&str> = near(table, &names);
    let hint = match near.as_slice() {
        [] => "check the name, and that this user may see it".to_string(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Ok(Error::new(
        ErrorKind::Usage,
        format!("{}: there is no table or view {schema}.{table}; {hint}", session.name()),
    ))
}

/// Up to three names that differ from `wanted` in case or in at most two letters.
fn near<'a>(wanted: &str, names: &'a [String]) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(usize, &str)> =
        names.iter().map(|n| (distance(&wanted, &n.to_lowercase()), n.as_str())).collect();
    scored.retain(|(d, _)| *d <= 2 && *d < wanted.chars().count());
    scored.sort();
    scored.into_iter().take(3).map(|(_, n)| n).collect()
}

/// The number of inserted, removed or replaced letters between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: &str, unique: bool, column: Option<&str>) -> IndexPart {
        IndexPart {
            index: index.into(),
            unique,
            column: column.map(str::to_string),
            ascending: true,
            tree: true,
            ignored: false,
        }
    }

    fn described() -> Described {
        let shape = TableShape {
            engine: Engine::MySql,
            columns: vec![],
            primary_key: vec![],
            unique: vec![],
            index_orders: vec![],
            comment: None,
            may_be_ordered: false,
            row_estimate: None,
            hidden_rows: None,
        };
        Described { shape, indexes: vec![], without_snapshots: None }
    }

    #[test]
    fn only_whole_columns_make_an_index_unique() {
        let mut ignored = part("i", true, Some("e"));
        ignored.ignored = true;
        let mut descending = part("d", false, Some("g"));
        descending.ascending = false;
        let parts = [
            part("PRIMARY", true, Some("a")),
            part("PRIMARY", true, Some("b")),
            part("p", true, Some("c")),
            part("p", true, None),
            ignored,
            part("d", false, Some("f")),
            descending,
        ];
        let mut got = described();
        add_indexes(&mut got, &parts, true, false);
        assert_eq!(got.shape.primary_key, ["a", "b"]);
        assert_eq!(got.shape.unique, [vec!["a", "b"], vec!["e"]]);
        assert_eq!(got.shape.index_orders, [vec!["a", "b"], vec!["c"], vec!["f"]]);
        let mut got = described();
        add_indexes(&mut got, &parts, false, true);
        assert!(got.shape.unique.is_empty() && got.shape.primary_key.is_empty() && got.indexes.is_empty());
    }

    #[test]
    fn json_is_a_check_on_one_column_alone() {
        assert_eq!(checked_as_json("json_valid(`doc`)").as_deref(), Some("doc"));
        assert_eq!(checked_as_json("json_valid(`a``b`)").as_deref(), Some("a`b"));
        assert_eq!(checked_as_json("json_valid(`a`) or json_valid(`b`)"), None);
        assert_eq!(checked_as_json("`a` > 0"), None);
    }

    #[test]
    fn near_names_are_offered() {
        let names: Vec<String> = ["orders", "Order", "items", "o"].map(String::from).to_vec();
        assert_eq!(near("order", &names), ["Order", "orders"]);
        assert!(near("customers", &names).is_empty());
    }
}

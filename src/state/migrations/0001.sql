create table drift_run (
  id text primary key,
  pair text not null,
  level text not null,
  bucket bigint not null,
  started bigint not null,
  ended bigint,
  status text,
  reason text,
  config text not null,
  rows_compared bigint not null default 0,
  elapsed_micros bigint not null default 0,
  measure text,
  differences text,
  unique (pair, level, bucket)
);
create index drift_run_by_time on drift_run (pair, level, started);
create table drift_result (
  run text not null references drift_run (id) on delete cascade,
  check_id text not null,
  metric text not null,
  subject text not null,
  status text not null,
  reason text,
  measured double precision,
  threshold text,
  n bigint,
  bound_low double precision,
  bound_high double precision,
  evidence text not null,
  primary key (run, check_id)
);
create table drift_lease (
  name text primary key,
  holder text not null,
  until bigint not null
);
create table drift_slot (
  pair text not null,
  level text not null,
  done bigint not null,
  primary key (pair, level)
);
create table drift_latest (
  pair text not null,
  level text not null,
  run text not null,
  status text not null,
  completed bigint not null,
  answered bigint,
  measure text,
  lag bigint,
  primary key (pair, level)
);
create table drift_coverage (
  pair text not null,
  level text not null,
  verified_through bigint not null,
  primary key (pair, level)
);
create table drift_shape (
  pair text not null,
  side text not null,
  accepted text not null,
  accepted_tag text,
  accepted_at bigint not null,
  seen text not null,
  seen_tag text,
  agreed text,
  primary key (pair, side)
);
create table drift_incident (
  number bigint primary key,
  pair text not null,
  kind text not null,
  state text not null,
  opened bigint not null,
  changed bigint not null,
  body text not null
);
create index drift_incident_by_pair on drift_incident (pair, kind, number);
create table drift_event (
  incident bigint not null references drift_incident (number),
  seq bigint not null,
  at bigint not null,
  actor text not null,
  event text not null,
  detail text not null,
  primary key (incident, seq)
);
create table drift_outbox (
  id text primary key,
  notifier text not null,
  payload text not null,
  created bigint not null,
  due bigint not null,
  tries bigint not null,
  sent bigint,
  error text
);
create index drift_outbox_due on drift_outbox (due) where sent is null;
create table drift_audit (
  seq bigint primary key,
  at bigint not null,
  actor text not null,
  action text not null,
  subject text not null,
  detail text not null,
  previous text not null,
  hash text not null
);

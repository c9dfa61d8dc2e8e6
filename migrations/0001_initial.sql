-- The whole state of a server. Times are milliseconds since 1970 (UTC), columns that end in _json hold JSON text,
-- ids are as in docs/architecture.md. Forward only: a later file changes what this one made.

CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT;

-- Content by hash: model files, graphs, fragments. Large values lie in rows of 64 KiB, so that memory does not grow
-- with the file.
CREATE TABLE blob (
  sha TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE chunk (
  sha TEXT NOT NULL REFERENCES blob (sha) ON DELETE CASCADE,
  n INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (sha, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE model (
  name TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  actor TEXT NOT NULL
) STRICT;

CREATE TABLE version (
  model TEXT NOT NULL REFERENCES model (name) ON DELETE CASCADE,
  sha TEXT NOT NULL REFERENCES blob (sha),
  serial INTEGER NOT NULL,            -- counts a model's uploads; the highest is `latest`
  format TEXT NOT NULL,
  graph BLOB NOT NULL,                -- graph_write()
  summary_json TEXT NOT NULL,         -- inputs, outputs, MACs, parameters
  layers_json TEXT NOT NULL,
  labels_json TEXT NOT NULL,          -- array of strings
  input_json TEXT NOT NULL,           -- how images become inputs
  schedule_json TEXT,                 -- made by the schedule job
  dry_run_json TEXT,                  -- what the fleet of that moment made of it
  created_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  PRIMARY KEY (model, sha)
) STRICT;
CREATE INDEX version_by_sha ON version (sha);

CREATE TABLE job (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,                 -- schedule
  state TEXT NOT NULL,                -- waiting, running, done, failed
  model TEXT NOT NULL,
  version TEXT NOT NULL,
  error_json TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  actor TEXT NOT NULL
) STRICT;
CREATE INDEX job_by_state ON job (state);

CREATE TABLE board (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,                -- pending, accepted, revoked
  kind TEXT NOT NULL,
  location TEXT NOT NULL,
  tags_json TEXT NOT NULL,
  drained INTEGER NOT NULL DEFAULT 0,
  hello_json TEXT,                    -- what the board said of itself last
  rating_json TEXT,                   -- measured: clock, delay, bandwidth, K_1, rating
  certificate_serial TEXT NOT NULL,
  certificate_until INTEGER NOT NULL,
  enrolment TEXT,
  last_seen_at INTEGER,
  owner TEXT NOT NULL,
  lease_until INTEGER,
  created_at INTEGER NOT NULL,
  actor TEXT NOT NULL
) STRICT;

CREATE TABLE enrolment (
  id TEXT PRIMARY KEY,
  secret_sha TEXT NOT NULL UNIQUE,    -- of the code's first part; the code itself is shown once
  accept INTEGER NOT NULL,
  name_prefix TEXT NOT NULL,
  uses_left INTEGER NOT NULL,
  tries_left INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  actor TEXT NOT NULL
) STRICT;

CREATE TABLE attempt (                -- failed attempts to enrol or to connect
  id TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  address TEXT NOT NULL,
  code TEXT NOT NULL,                 -- status name
  reason TEXT NOT NULL,
  action TEXT NOT NULL                -- what to do
) STRICT;

CREATE TABLE plan (
  hash TEXT PRIMARY KEY,
  version TEXT NOT NULL REFERENCES blob (sha),
  plan_json TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE deployment (
  id TEXT PRIMARY KEY,
  model TEXT NOT NULL,
  version TEXT NOT NULL REFERENCES blob (sha),
  state TEXT NOT NULL,
  generation INTEGER NOT NULL,
  request_json TEXT NOT NULL,         -- as it was posted, defaults filled in
  tags_json TEXT NOT NULL,
  promoted INTEGER NOT NULL,
  error_json TEXT,
  owner TEXT NOT NULL,
  lease_until INTEGER,
  created_at INTEGER NOT NULL,
  active_at INTEGER,
  ended_at INTEGER,
  actor TEXT NOT NULL,
  FOREIGN KEY (model, version) REFERENCES version (model, sha)
) STRICT;
CREATE INDEX deployment_by_state ON deployment (state);
CREATE INDEX deployment_by_model ON deployment (model, active_at);

CREATE TABLE deployment_event (       -- how a deployment came to its state
  deployment TEXT NOT NULL REFERENCES deployment (id) ON DELETE CASCADE,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  generation INTEGER NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL
) STRICT;
CREATE INDEX deployment_event_by_deployment ON deployment_event (deployment, at);

CREATE TABLE generation (
  deployment TEXT NOT NULL REFERENCES deployment (id) ON DELETE CASCADE,
  generation INTEGER NOT NULL,
  plan TEXT NOT NULL REFERENCES plan (hash),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (deployment, generation)
) STRICT, WITHOUT ROWID;

CREATE TABLE part (                   -- a board's part of a generation
  deployment TEXT NOT NULL,
  generation INTEGER NOT NULL,
  party INTEGER NOT NULL,
  board TEXT NOT NULL REFERENCES board (id),
  fragment TEXT NOT NULL,             -- SHA-256; the bytes are a blob
  fragment_bytes INTEGER NOT NULL,
  verified_at INTEGER,                -- the board has echoed the hash
  PRIMARY KEY (deployment, generation, party),
  FOREIGN KEY (deployment, generation) REFERENCES generation (deployment, generation) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX part_by_board ON part (board);
CREATE INDEX part_by_fragment ON part (fragment);

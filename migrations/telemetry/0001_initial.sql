-- What was measured: a second database, synced less strictly. Losing its last moments loses no state.

CREATE TABLE inference (
  id TEXT PRIMARY KEY,                -- ULID: sorts by time
  model TEXT NOT NULL,
  version TEXT NOT NULL,
  deployment TEXT NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL,                -- done, failed
  error_json TEXT,
  begun_at INTEGER NOT NULL,
  latency_us INTEGER NOT NULL,
  bytes_moved INTEGER NOT NULL,
  timeline_json TEXT NOT NULL         -- per board: computing, waiting, moving, segments
) STRICT;
CREATE INDEX inference_by_deployment ON inference (deployment, id);

CREATE TABLE board_log (
  id TEXT PRIMARY KEY,
  board TEXT NOT NULL,
  at INTEGER NOT NULL,
  level TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX board_log_by_board ON board_log (board, id);

CREATE TABLE board_state (            -- time line of a board's link
  board TEXT NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX board_state_by_board ON board_state (board, at);

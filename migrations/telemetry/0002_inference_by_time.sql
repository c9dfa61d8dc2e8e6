-- The overview asks for the last minutes, drift for a deployment's last hour.
CREATE INDEX inference_by_time ON inference (begun_at, state, latency_us);

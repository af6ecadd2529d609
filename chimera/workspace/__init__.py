"""The one folder a run works in: paths, sandbox, snapshots, lock."""

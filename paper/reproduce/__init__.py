"""The published tables beside ours: data of each experiment, runs, tables and figures."""

"""Measurements of the project, each started by `python -m benchmarks NAME`; results are in `results/`."""

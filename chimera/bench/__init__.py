"""Benchmark tasks: load, run, grade."""

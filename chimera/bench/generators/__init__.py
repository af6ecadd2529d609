"""Makers of benchmark tasks: from a seed to a whole task folder, the same one every time, on every machine."""

"""The loop, the context budget and the data they work on."""

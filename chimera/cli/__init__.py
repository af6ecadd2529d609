"""The command line: typer commands and what they print."""

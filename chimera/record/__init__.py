"""What a run leaves behind: events, outputs, archive."""

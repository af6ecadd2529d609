"""Settings; see SPEC.md."""

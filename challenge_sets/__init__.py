"""Challenge sets: templates and tests of behaviour, minimal pairs and diagnostics."""

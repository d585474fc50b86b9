"""Generated commands over every verb: valid and hostile values, run through the command line's own entry point."""

"""The files of a task: read, shown to the model, rewritten whole or not at all (RFC 0006)."""

"""The arbiter: the second decider, keyed by resource, with its own chained ledger and its own pure law (model §6)."""

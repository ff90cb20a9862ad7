"""The read side of Join Gate: tables folded from the ledger, and the ways to read them."""

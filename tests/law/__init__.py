"""The law by behaviour: tables of claims and decisions over the state in memory, with no broker and no disk."""

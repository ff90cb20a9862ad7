"""The gateway's tests: the core over the real law in memory, and every door over a real broker."""

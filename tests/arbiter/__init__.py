"""The tests of the arbiter: its law in tables and properties, and the arbiter on a real broker."""

"""The contract of Join Gate: event types, Avro schemas, codec and topic catalogue."""

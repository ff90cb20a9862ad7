"""The deciding side of Join Gate: the law, and the processes that run it over Kafka."""

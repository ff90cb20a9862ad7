"""The gate: claims in, one decision each, exactly once; one writer a partition, in Kafka transactions."""

"""The room for measuring: the gate beside the pass-through and Kafka Streams, in one run, on one broker, as ratios."""

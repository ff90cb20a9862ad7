"""The law: pure rules of what follows from a claim. No clock, no random, no ids made up, no IO."""

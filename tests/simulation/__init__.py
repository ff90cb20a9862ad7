"""Tests of the simulator, the checker and the proof: many stories, none of them on a broker."""

"""Tests of the face; a package, so that its modules share what conftest has."""

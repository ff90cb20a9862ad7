"""The face of Join Gate: public names, settings, the command line and the wiring of all rooms."""

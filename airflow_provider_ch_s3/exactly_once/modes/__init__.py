"""One file for each load mode, and what several modes share."""

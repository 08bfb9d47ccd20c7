"""Recorded trajectories through the same pipeline: the runner, its summary, and the recorders of real shells."""

"""Reads shell command lines: simple commands, how they are joined, and which language features they use."""

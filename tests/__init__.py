"""The tests; `helpers.py` holds what several of them build."""

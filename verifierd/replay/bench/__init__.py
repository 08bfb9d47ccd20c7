"""`verifierd bench`: suites are documents, `ENGINES` says which function measures each."""

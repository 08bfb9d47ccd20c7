"""What a session has shown so far, as far as contracts ask for it."""

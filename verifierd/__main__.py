"""`python -m verifierd`."""

from verifierd.cli import main

if __name__ == "__main__":
    main()

"""`python -m csrr`: the command line."""

from csrr.cli import main

if __name__ == "__main__":
    main()

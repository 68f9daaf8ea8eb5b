"""`python -m rowen.cluster`."""

from rowen.cluster.cli import main

if __name__ == "__main__":
    main()

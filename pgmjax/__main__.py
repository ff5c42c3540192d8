"""`python -m pgmjax` is the command `pgmjax`."""

from pgmjax.cli import run

if __name__ == "__main__":
    run()

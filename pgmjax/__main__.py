"""`python -m pgmjax` is the command `pgmjax`."""

import sys

from pgmjax.cli import main

if __name__ == "__main__":
    sys.exit(main())

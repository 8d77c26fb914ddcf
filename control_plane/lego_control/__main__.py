"""`python -m lego_control` is `lego`."""

import sys

from lego_control.cli import main

if __name__ == "__main__":
    sys.exit(main())

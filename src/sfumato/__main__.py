"""``python -m sfumato``: the command line, if its script is not on the path."""

import sys

try:
    from .cli import main

    code = main()
except KeyboardInterrupt:  # before main handles it
    code = 130
sys.exit(code)

"""``python -m sfumato``: the command line, where its script is not on the path."""

import sys

try:
    from .cli import main

    code = main()
except KeyboardInterrupt:  # before main listens
    code = 130
sys.exit(code)

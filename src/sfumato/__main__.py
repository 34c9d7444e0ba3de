"""``python -m sfumato``: the command line, where its script is not on the path."""

import sys

from .cli import main

sys.exit(main())

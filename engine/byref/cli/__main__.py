"""`python -m byref.cli`: the command, where its script is not installed."""

import sys

from byref.cli.main import main

sys.exit(main())

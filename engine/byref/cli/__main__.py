"""`python -m byref.cli`: the command where no script is installed."""

import sys

from byref.cli.main import main

sys.exit(main())

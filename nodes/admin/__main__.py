"""``python3 -m kraftwreck.nodes.admin``."""

import sys

from kraftwreck.nodes.admin.main import main

sys.exit(main())

"""`python -m attest`: the command `attest`."""
import sys

from .base.program import main

sys.exit(main())

"""`python -m attest`: the command `attest`."""
import sys

from .program import main

sys.exit(main())

"""cmake and ctest: those beside the interpreter, else those of the PATH."""
import os
import shutil
import sys
from pathlib import Path

CMAKE, CTEST = (shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
                for name in ("cmake", "ctest"))

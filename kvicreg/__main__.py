import sys

from kvicreg.cli import main

sys.exit(main())

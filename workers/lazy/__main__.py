"""`python -m workers.lazy serve|assist ...`: a process that a worker starts. No Django: it is ready in a tenth of a second."""

import sys

sys.setswitchinterval(0.0005)
role, arguments = sys.argv[1], sys.argv[2:]
if role == "serve":
    from workers.lazy.daemon import run
else:
    from workers.lazy.assist import run
run(arguments)

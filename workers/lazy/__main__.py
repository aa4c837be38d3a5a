"""`python -m workers.lazy serve|assist|spare ...`: a process that a worker starts. No Django: it is ready in a third of a second."""

import sys

from workers.lazy.spare import run, wait_for_role

sys.setswitchinterval(0.0005)
role, arguments = sys.argv[1], sys.argv[2:]
if role == "spare":
    given = wait_for_role(int(arguments[-1]), arguments[:-1])
    if given is None:
        sys.exit(0)
    role, arguments = given
run(role, arguments)

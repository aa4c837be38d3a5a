"""Gate 4: machine and daemon killed together; the agent is back at work and finishes its task. `./keepstate prove 4` is the one command."""

import os
import signal
import time
from typing import Any

import pytest

from tests.gates.room import Room, Subject
from tests.support.waiting import until, until_gone

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(300)]
BUGS = 4

#: Four programs with a bug each, and a check that only correct ones pass. Both lie in the guest's files, the plan in its agent's memory.
TASK = r"""
mkdir -p /run/task && cd /run/task
echo 'echo $(($1 - $2))' > add
echo '[ $1 -lt $2 ] && echo $1 || echo $2' > max
echo 'echo $(($1 * 3))' > double
echo 'n=0; for w in "$@"; do n=$((n+2)); done; echo $n' > count
cat > check <<'END'
cd /run/task
[ "$(sh add 19 23)" = 42 ] && [ "$(sh max 7 30)" = 30 ] && [ "$(sh double 21)" = 42 ] && [ "$(sh count a b c)" = 3 ]
END
"""
#: Works on one bug after another, two seconds each; its log says which it has done, with a nonce that only its memory holds.
AGENT = r"""
nonce=$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n'); cd /run/task; n=0
for step in add:-:+ max:-lt:-gt double:3:2 count:+2:+1; do
  file=${step%%:*}; rest=${step#*:}; t=0
  while [ $t -lt 8 ]; do t=$((t+1)); echo "$n $t $nonce" > /run/thinking; sleep 0.2; done
  sed -i "s/${rest%:*}/${rest#*:}/" $file
  n=$((n+1)); echo "$n $file $nonce" >> log
done
sh check && echo "$nonce" > passed
sleep 100000
"""


def put_to_work(subject: Subject) -> None:
    assert subject.exec(TASK)["exit_code"] == 0
    assert subject.exec("sh /run/task/check")["exit_code"] != 0, "the task is not done before the agent has begun"
    subject.exec(f"({AGENT}) >/dev/null 2>&1 </dev/null &")
    until(lambda: log_of(subject), 60, "the agent has fixed its first bug")


def log_of(subject: Subject) -> list[list[str]]:
    """(number, file, nonce) of each bug that the agent has fixed."""
    return [line.split() for line in subject.exec("cat /run/task/log 2>/dev/null")["stdout"].splitlines()]


def says_that_it_passed(subject: Subject) -> str:
    return str(subject.exec("cat /run/task/passed 2>/dev/null")["stdout"].strip())


def kill_machine_and_daemon(opened: Room, subject: Subject) -> int:
    """Every process at once: no part may hand over to another. Returns how many."""
    pids = [*subject.pids(), *(pid for kind in ("vm", "io", "control") for pid in opened.worker_pids(kind))]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        until_gone(pid, 10)
    return len(pids)


def prove_unattended(opened: Room, subject: Subject, evidence: dict[str, Any]) -> None:
    put_to_work(subject)
    subject.save()
    killed, down = kill_machine_and_daemon(opened, subject), time.monotonic()
    subject.resume()
    after = log_of(subject)
    seconds = time.monotonic() - down
    assert after, "the agent that works now is not the one that was saved"
    nonce = after[0][2]
    until(lambda: says_that_it_passed(subject), 60, "the agent finishes its task")
    done = log_of(subject)
    evidence |= {"processes_killed": killed, "down_seconds": round(seconds, 2), "fixed_when_back": len(after), "log": done}
    assert subject.exec("sh /run/task/check")["exit_code"] == 0, "all four bugs are fixed"
    assert [(number, said) for number, _, said in done] == [(str(n + 1), nonce) for n in range(BUGS)], "one agent, each bug once"
    assert len(after) < BUGS, "it was killed in the middle of its task"


@pytest.mark.gate("4", "Machine and every worker killed together, one command: the agent is back at work and finishes its four-bug task")
def test_an_agent_finishes_its_task_although_its_machine_and_the_daemon_were_killed(gate_room: Room, evidence: dict[str, Any]) -> None:
    subject = gate_room.start()
    prove_unattended(gate_room, subject, evidence)
    subject.delete()


@pytest.mark.long
def test_gate_4_fails_when_a_resume_boots_afresh(sabotaged_room: Room) -> None:
    with sabotaged_room.without("resume_boots_afresh"):
        subject = sabotaged_room.start()
        with pytest.raises(AssertionError, match="not the one that was saved"):
            prove_unattended(sabotaged_room, subject, {})

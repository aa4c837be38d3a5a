"""What the policies of sessions ask for by now: automatic saves, the parking of idle ones, and what other apps ask for."""

from sessions_app.services import idle_policy, save_policy, steps


def run_due() -> int:
    """Returns how many saves and parkings were asked for."""
    return save_policy.run_due() + idle_policy.run_due() + sum(run() for run in steps.lifecycle_turns)

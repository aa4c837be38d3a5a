"""What the policies of sessions ask for by now: automatic saves, and the parking of idle ones."""

from sessions_app.services import idle_policy, save_policy


def run_due() -> int:
    """Returns how many saves and parkings were asked for."""
    return save_policy.run_due() + idle_policy.run_due()

import os

from django.apps import AppConfig


class SabotageConfig(AppConfig):
    name = "tests.sabotage"
    label = "sabotage"

    def ready(self) -> None:
        from tests.sabotage.mechanisms import MECHANISMS

        MECHANISMS[os.environ["KEEPSTATE_SABOTAGE"]]()

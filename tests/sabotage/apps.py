from django.apps import AppConfig


class SabotageConfig(AppConfig):
    name = "tests.sabotage"
    label = "sabotage"

    def ready(self) -> None:
        from tests.sabotage import switch

        switch.install()

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    name = "sessions_app"
    label = "sessions_app"
    verbose_name = "Sessions"

    def ready(self) -> None:
        from sessions_app.services import recorded, steps

        steps.erase.add(recorded.erase_session)

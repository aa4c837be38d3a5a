from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "workers"
    label = "workers"
    verbose_name = "Fleet"

    def ready(self) -> None:
        from sessions_app.services import steps
        from workers.host import placement

        steps.place_boot.fill(placement.place_boot)
        steps.place_resume.fill(placement.place_resume)

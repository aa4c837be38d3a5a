from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "keepstate_site"
    verbose_name = "KeepState"

    def ready(self) -> None:
        # Binds the Celery application in every process that rings a doorbell, and registers the system checks.
        from keepstate_site import celery, checks  # noqa: F401

from django.apps import AppConfig


class CheckpointsConfig(AppConfig):
    name = "checkpoints_app"
    label = "checkpoints_app"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        from checkpoints_app.services import capabilities, erase, image
        from sessions_app.services import steps

        steps.resolve_image.fill(image.resolve)
        steps.erase.add(erase.erase_session)
        steps.capabilities.add(capabilities.rows)
        steps.vocabularies.add(capabilities.vocabularies)

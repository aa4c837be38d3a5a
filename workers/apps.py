from django.apps import AppConfig


class WorkersConfig(AppConfig):
    name = "workers"
    label = "workers"
    verbose_name = "Fleet"

    def ready(self) -> None:
        from checkpoints_app.services import storage
        from sessions_app.services import steps
        from workers.cache.store import forget_pack
        from workers.fleet import moves
        from workers.host import capabilities, compatibility, holders, placement
        from workers.relay.files import files_of

        steps.guest_files.fill(files_of)
        steps.capabilities.add(capabilities.rows)
        steps.place_boot.fill(placement.place_boot)
        steps.place_resume.fill(placement.place_resume)
        steps.move_session.fill(moves.ask)
        steps.hosts_for_pin.fill(compatibility.hosts_for_pin)
        steps.pin_holders.fill(holders.holders)
        steps.host_answers.fill(compatibility.host_answers)
        storage.tell_of_deletions(forget_pack)

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings


class CheckpointsConfig(AppConfig):
    name = "checkpoints_app"
    label = "checkpoints_app"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        from checkpoints_app.services import (
            account_erase,
            account_export,
            capabilities,
            deletion_facts,
            erase,
            held,
            image,
            receipt,
            saved_point,
            sealing,
        )
        from checkpoints_app.store import spill
        from sessions_app.services import steps

        spill.use_directory(Path(settings.KEEPSTATE_VAR) / "spill")
        steps.resolve_image.fill(image.resolve)
        steps.saved_point.fill(saved_point.find)
        steps.later_work.add(saved_point.later)
        steps.sealer.fill(sealing.sealer)
        steps.seal.fill(sealing.seal)
        steps.unseal.fill(sealing.unseal)
        steps.session_stored_bytes.fill(held.of_session)
        steps.account_stored_bytes.fill(held.of_account)
        steps.erase.add(erase.erase_session)
        steps.erase_account.add(account_erase.erase_with_account)
        steps.export_account.add(account_export.rows_of)
        steps.sign_receipt.fill(account_erase.sign_deletion)
        steps.read_receipt.fill(receipt.of_deletion)
        steps.deletion_facts.add(deletion_facts.of_session)
        steps.vocabularies.add(capabilities.vocabularies)

from django.db import models
from django.db.models.functions import Now

from sessions_app.models import Account


class AccountKey(models.Model):
    """The key under which an account's content is sealed, wrapped by the service's master key. Destroying it (the object
    `accounts/<id>/key`, then the row) shreds the content.
    """

    account = models.OneToOneField(Account, on_delete=models.PROTECT, primary_key=True, related_name="content_key")
    wrapped = models.BinaryField(editable=False)
    generation = models.PositiveIntegerField(default=0, editable=False)  # of its object in the store; grows when it is wrapped anew
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return f"content key of {self.account_id}"

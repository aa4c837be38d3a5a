from django.db import models
from django.db.models.functions import Now

from sessions_app.ids import new_account_id


class Account(models.Model):
    """The owner of everything: every query of the API is scoped to one. While it is closing it takes no change but to stay after all."""

    id = models.CharField(primary_key=True, max_length=40, default=new_account_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    closing_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.name

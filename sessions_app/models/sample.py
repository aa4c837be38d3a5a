from django.db import models
from django.db.models.functions import Now


class Sample(models.Model):
    """What a gauge of the whole service read at a moment: the past that no row of the present tells. Numbers alone, of no account."""

    gauge = models.CharField(max_length=40)
    at = models.DateTimeField(db_default=Now(), editable=False)
    value = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["gauge", "at"], include=["value"], name="sample_of_gauge")]

    def __str__(self) -> str:
        return f"{self.gauge} {self.value}"

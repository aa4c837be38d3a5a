"""Fields that take a JSON value of their own type and no other: "12" is no number and "no" is no false."""

from datetime import datetime
from typing import Any

from rest_framework import serializers


class Text(serializers.CharField):
    """A string as it was sent, blanks included."""

    def __init__(self, **options: Any):
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise serializers.ValidationError("must be a string")
        return str(super().to_internal_value(data))


class Whole(serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            raise serializers.ValidationError("must be a whole number")
        return data


class Flag(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            raise serializers.ValidationError("must be true or false")
        return data


class Moment(serializers.DateTimeField):
    """Output: a moment of the database's, which is UTC already. The framework's own field works its zone out anew for each value, which is
    a third of what a page of a history costs.
    """

    def to_representation(self, value: datetime) -> str:
        return value.isoformat().replace("+00:00", "Z")


class Known(serializers.CharField):
    """Output: text whose emptiness means that it is not known or does not apply, which is told as null."""

    def __init__(self, **options: Any):
        super().__init__(allow_null=True, read_only=True, **options)

    def get_attribute(self, instance: Any) -> Any:
        return super().get_attribute(instance) or None

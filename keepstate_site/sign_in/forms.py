"""What a person says about a terminal's sign-in."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from sessions_app.models import DeviceGrant, Membership
from sessions_app.roles import ROLE_SCOPES, SCOPE_WORDS, Role, Scope

_CHOICES = [(scope.value, words) for scope, words in SCOPE_WORDS.items()]
ACCOUNTS_SHOWN = 200


class Decision(forms.Form):
    """Which account the terminal may act for, and what it may do there."""

    account = forms.ChoiceField(label="Account")
    scopes = forms.MultipleChoiceField(label="It may", choices=_CHOICES, widget=forms.CheckboxSelectMultiple)

    def __init__(self, user: User, grant: DeviceGrant, data: Any = None):
        self.memberships = {one.account_id: one for one in memberships(user)}
        super().__init__(data, initial={"scopes": grant.requested_scopes})
        field = self.fields["account"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(id_, f"{one.account.name} (you are {one.role})") for id_, one in self.memberships.items()]
        scopes = self.fields["scopes"]
        assert isinstance(scopes, forms.MultipleChoiceField)
        scopes.choices = [(scope, words) for scope, words in SCOPE_WORDS.items() if scope in self._possible()]

    def _possible(self) -> frozenset[Scope]:
        """What one of the user's roles allows; the account that is chosen may allow less, and then less is given."""
        return frozenset[Scope]().union(*(ROLE_SCOPES[Role(one.role)] for one in self.memberships.values()))

    def membership(self) -> Membership:
        """Prerequisite: the form is valid."""
        return self.memberships[self.cleaned_data["account"]]


def memberships(user: User) -> list[Membership]:
    return list(Membership.objects.filter(user=user).select_related("account").order_by("account__name")[:ACCOUNTS_SHOWN])

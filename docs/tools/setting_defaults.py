"""Griffe extension: shows `500` instead of `setting(500, ...)` in the signatures of settings."""

import griffe

MAKERS = {"keras_transformer.argument_checks.setting", "keras_transformer.settings.setting"}
SWITCH = "keras_transformer.settings.switch"  # called with only a reason; the default is "auto"


class SettingDefaults(griffe.Extension):
    """Replaces the call that creates a dataclass field with the field's default."""

    def on_package(self, *, pkg, **options):
        for attribute in _attributes(pkg):
            value = attribute.value
            if isinstance(value, griffe.ExprCall):
                if value.canonical_path in MAKERS:
                    attribute.value = value.arguments[0]
                elif value.canonical_path == SWITCH:
                    attribute.value = '"auto"'


def _attributes(obj):
    """Yield every attribute of every class in a package."""
    for member in obj.members.values():
        if member.is_alias:
            continue
        if member.is_attribute:
            yield member
        else:
            yield from _attributes(member)

"""`outlast config`."""

from __future__ import annotations

import re
from typing import Any

from outlast.cli.command import Command, group
from outlast.cli.console import show_view
from outlast.cli.entrypoint import SOUND, command
from outlast.cli.options import Form, FormOption
from outlast.settings import KEYS, Settings
from outlast.views.types import SettingsView, SettingView

app = group("Show the settings in force.")
_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")


@app.callback()
def config() -> None:
    """Show the settings in force."""


@app.command(cls=Command)
@command
async def show(settings: Settings, output: FormOption = Form.TEXT) -> int:
    """Show every setting, its value and its source.

    The first of these that has a setting determines it: an argument in Python,
    a command-line option, a variable such as OUTLAST_STORE, outlast.toml or
    [tool.outlast] in pyproject.toml of the project, the default.

    \b
    outlast config show
    outlast config show -o json | jq -r .settings.store.value
    """
    found = {
        key: SettingView(value=_without_password(getattr(settings, key)), source=settings.sources[key]) for key in KEYS
    }
    show_view(SettingsView(root=str(settings.root), settings=found), output)
    return SOUND


def _without_password(value: Any) -> Any:
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value

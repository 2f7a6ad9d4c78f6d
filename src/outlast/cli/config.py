"""`outlast config`: what is set, and who said so."""

from __future__ import annotations

import re
from typing import Any

import typer

from outlast.cli.command import Command, group
from outlast.cli.console import show_lines, write_json
from outlast.cli.entrypoint import SOUND, carry_out
from outlast.cli.options import Form, FormOption, StoreOption, settings_of
from outlast.settings import KEYS, Settings
from outlast.views.text import lines_of
from outlast.views.types import SettingsView, SettingView

app = group("What is set, and who said so.")

_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")


@app.callback()
def config() -> None:
    """What is set, and who said so."""


@app.command(cls=Command)
def show(ctx: typer.Context, store: StoreOption = None, output: FormOption = Form.TEXT) -> None:
    """Show every setting, its value and where it comes from.

    The nearest place that names a setting wins: an argument in Python, a flag,
    a variable like OUTLAST_STORE, outlast.toml or [tool.outlast] in
    pyproject.toml of the project, the default.

    \b
    outlast config show
    outlast config show -o json | jq -r .settings.store.value
    """
    carry_out(lambda: _show(settings_of(ctx, store), output))


async def _show(settings: Settings, output: Form) -> int:
    values = {key: _without_password(getattr(settings, key)) for key in KEYS}
    told = {key: SettingView(value=value, source=settings.sources[key]) for key, value in values.items()}
    view = SettingsView(root=str(settings.root), settings=told)
    if output is Form.JSON:
        write_json(view, pretty=True)
        return SOUND
    show_lines(lines_of(view, 0))
    return SOUND


def _without_password(value: Any) -> Any:
    """An address may hold one, and what is shown ends up in logs and mails."""
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value

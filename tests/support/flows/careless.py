"""Nodes that disclose a secret, for helper processes, which import them by name."""

from __future__ import annotations

import logging
from typing import Any

import outlast as ol


class Refused(Exception):
    """Contains the secret."""

    def __init__(self, key: str) -> None:
        super().__init__("refused")
        self.key = key


@ol.node(run_in="process")
def raising_in_a_process(key: ol.Secret) -> None:
    raise ValueError(f"bad password {key.reveal()}!")


@ol.node(run_in="process")
def carrying_in_a_process(key: ol.Secret) -> None:
    raise Refused(str(key.reveal()))


@ol.node(run_in="process")
def returning_in_a_process(key: ol.Secret) -> Any:
    return [str(key.reveal())]


@ol.node(run_in="process")
def keeping_in_a_process(key: ol.Secret) -> None:
    ol.checkpoint({"key": str(key.reveal())})


@ol.node(run_in="process")
def logging_in_a_process(key: ol.Secret, file: str) -> None:
    handler = logging.FileHandler(file)
    own = logging.getLogger("careless.own")
    own.addHandler(handler)
    own.warning("with %s", key.reveal())
    own.removeHandler(handler)
    handler.close()

"""Writes reference/messages.txt: every text of src/outlast that a user may read, for review. `make messages` runs this file.

Each text has a kind: `error` (raised), `help` (help of the command line), `log` (logged or printed on stderr), or `text`
(another string with at least three words). A name in a text is shown in braces, another expression as `{…}`. Line numbers
are left out, so that the file changes only with the texts.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "outlast"
FILE = Path(__file__).with_name("reference") / "messages.txt"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "notice", "show_reply"}
MIN_WORDS = 3
_SQL = re.compile(r"\b(select|insert|create|update|delete|pragma|begin|alter|drop|with) ", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{2,}")


def messages() -> str:
    """The text of the file."""
    parts = []
    for path in sorted(SOURCE.rglob("*.py")):
        texts = list(dict.fromkeys(_Texts(ast.parse(path.read_text(encoding="utf-8"))).found))
        if texts:
            lines = [f"  {kind:<6}{_indented(text)}" for kind, text in texts]
            parts.append("\n".join([path.relative_to(SOURCE.parent).as_posix(), *lines]))
    return "\n\n".join(parts) + "\n"


def _indented(text: str) -> str:
    lines = inspect.cleandoc(text).replace("\b", "").splitlines()
    return "\n".join(f"{' ' * 8}{line}".rstrip() for line in lines).strip()


class _Texts(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[str, str]] = []
        self._kind = "text"
        self._skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        self.visit(tree)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._within("error", node)

    def visit_keyword(self, node: ast.keyword) -> None:
        self._within("help" if node.arg == "help" else self._kind, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"compile", "execute", "fullmatch", "literal", "TypeVar"}:
            return
        self._within("log" if name in LEVELS else self._kind, node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = " ".join(map(ast.unparse, node.decorator_list))
        if any(name in decorators for name in ("command", "continues", ".callback")):
            self.found.append(("help", ast.get_docstring(node) or ""))
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        fixed = [each.value for each in node.values if isinstance(each, ast.Constant)]
        self._add("".join(_parts(node)), " ".join(map(str, fixed)))
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                self.visit(each.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and id(node) not in self._skipped:
            self._add(node.value, node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if getattr(node.value, "id", "") == "Annotated":
            self.generic_visit(node)

    def _within(self, kind: str, node: ast.AST) -> None:
        before, self._kind = self._kind, kind
        self.generic_visit(node)
        self._kind = before

    def _add(self, text: str, fixed: str) -> None:
        words = len(_WORD.findall(fixed))
        is_known = self._kind != "text" and words and (" " in text or self._kind == "help")
        if (words >= MIN_WORDS and " " in fixed.strip() and not _SQL.match(text.strip())) or is_known:
            self.found.append((self._kind, text))


def _parts(node: ast.JoinedStr) -> Iterator[str]:
    for each in node.values:
        if isinstance(each, ast.Constant):
            yield str(each.value)
        elif isinstance(each, ast.FormattedValue):
            yield "{" + (ast.unparse(each.value) if isinstance(each.value, ast.Name | ast.Attribute) else "…") + "}"


if __name__ == "__main__":
    FILE.write_text(messages(), encoding="utf-8")

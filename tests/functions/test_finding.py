"""The code of a run is found again by whoever goes on with it, from wherever that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.errors import NotImportable
from outlast.functions import registry, workflow_import
from outlast.history import events as e

CODE = """
import outlast as ol
from .helper import helped

@ol.workflow
async def found_inside() -> str:
    return helped()
"""
BESIDE = "from parcels.sending import found_inside\n"
Elsewhere = Callable[[], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package in a folder of jobs, and a file beside it."""
    package = tmp_path / "jobs" / "parcels"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("def helped():\n    return 'helped'\n")
    (package / "sending.py").write_text(CODE)
    (package.parent / "nightly.py").write_text(BESIDE)
    return tmp_path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """What begins anew, as another process would: nothing of the package is known."""

    def restart_as_new_worker() -> None:
        monkeypatch.setattr(workflow_import, "_files", set())
        monkeypatch.setattr(workflow_import, "_folders", set())
        monkeypatch.setattr(registry, "_workflows", {})
        monkeypatch.setattr(sys, "path", [each for each in sys.path if "jobs" not in each])
        for name in [name for name in sys.modules if name.partition(".")[0] in ("parcels", "nightly", "sending")]:
            del sys.modules[name]
        workflow_import.import_entry.cache_clear()

    with monkeypatch.context():
        restart_as_new_worker()
        yield restart_as_new_worker
        restart_as_new_worker()


def recorded(workflow: str, root: Path) -> e.RunCreated:
    known = registry.known(workflow)
    assert known is not None
    entry, only_here = workflow_import.import_entry(known._spec)
    return e.RunCreated(workflow=workflow, entry=entry, folder=only_here, root=str(root))


def test_a_workflow_in_a_package_is_found_from_any_folder(folder: Path, elsewhere: Elsewhere) -> None:
    workflow_import.load(f"{folder}/jobs/nightly.py")
    created = recorded("found_inside", folder)
    assert (created.entry, created.folder) == ("parcels.sending:found_inside", f"{folder}/jobs")
    elsewhere()
    found = workflow_import.find_workflow(created)
    assert found._spec.entry == "parcels.sending:found_inside", "it is the module that it was"
    assert workflow_import.import_entry(found._spec) == (created.entry, created.folder)


def test_a_workflow_in_a_package_without_an_init_file_is_found(folder: Path, elsewhere: Elsewhere) -> None:
    (folder / "jobs/parcels/__init__.py").unlink()
    test_a_workflow_in_a_package_is_found_from_any_folder(folder, elsewhere)


def test_a_file_that_is_named_is_recorded_by_its_path(folder: Path, elsewhere: Elsewhere) -> None:
    (folder / "jobs/nightly.py").write_text(CODE.replace("from .helper", "from parcels.helper"))
    workflow_import.load(f"{folder}/jobs/nightly.py")
    created = recorded("found_inside", folder)
    assert (created.entry, created.folder) == (f"{folder}/jobs/nightly.py:found_inside", "")
    elsewhere()
    assert workflow_import.find_workflow(created)._spec.entry == "nightly:found_inside"


def test_a_package_that_was_named_as_a_module_is_found_from_any_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Elsewhere
) -> None:
    monkeypatch.syspath_prepend(str(folder / "jobs"))
    workflow_import.mark_local_only(str(folder / "jobs"))  # as the command line does with its working folder
    workflow_import.load("parcels.sending")
    created = recorded("found_inside", folder)
    elsewhere()
    assert workflow_import.find_workflow(created)._spec.entry == "parcels.sending:found_inside"


def test_a_workflow_of_the_package_itself_is_found(folder: Path, elsewhere: Elsewhere) -> None:
    (folder / "jobs/parcels/__init__.py").write_text(CODE)
    (folder / "jobs/nightly.py").write_text("from parcels import found_inside\n")
    workflow_import.load(str(folder / "jobs/nightly.py"))
    created = recorded("found_inside", folder)
    assert (created.entry, created.folder) == ("parcels:found_inside", f"{folder}/jobs")
    elsewhere()
    assert workflow_import.find_workflow(created)._spec.entry == "parcels:found_inside"


def test_a_package_is_found_in_a_project_that_was_moved(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere
) -> None:
    workflow_import.load(str(folder / "jobs/nightly.py"))
    created = recorded("found_inside", folder)
    moved = folder.rename(tmp_path_factory.mktemp("after") / "project")
    elsewhere()
    sys.path.insert(0, str(moved))
    assert workflow_import.find_workflow(created).fn.__code__.co_filename == str(moved / "jobs/parcels/sending.py")


def test_another_package_of_that_name_does_not_stand_for_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere
) -> None:
    workflow_import.load(str(folder / "jobs/nightly.py"))
    created = recorded("found_inside", folder)
    elsewhere()
    other = tmp_path_factory.mktemp("jobs")
    (other / "parcels").mkdir()
    (other / "parcels" / "sending.py").touch()
    (other / "parcels" / "__init__.py").touch()
    sys.path.insert(0, str(other))
    __import__("parcels")
    with pytest.raises(
        NotImportable,
        match=rf"needs module parcels.sending from {folder}/jobs, but parcels.sending is already imported "
        rf"from {other}/\S+: use another process",
    ):
        workflow_import.find_workflow(created)


def test_a_file_that_belongs_to_a_package_is_told_how_to_be_named(folder: Path, elsewhere: Elsewhere) -> None:
    with pytest.raises(NotImportable, match=r"belongs to a package: name it as package\.module"):
        workflow_import.load(str(folder / "jobs/parcels/sending.py"))


def test_what_lies_beside_a_script_is_found_from_any_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Elsewhere
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(folder / "jobs/script.py"), raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    sys.path.insert(0, str(folder / "jobs"))
    workflow_import.add_script_folder(str(folder))
    workflow_import.load("nightly")
    created = recorded("found_inside", folder)
    elsewhere()
    assert workflow_import.find_workflow(created)._spec.entry == "parcels.sending:found_inside"


def test_what_lies_in_the_projects_own_folder_is_a_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Elsewhere
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(folder / "jobs/script.py"), raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    sys.path.insert(0, str(folder / "jobs"))
    workflow_import.add_script_folder(str(folder / "jobs"))
    workflow_import.load("nightly")
    created = recorded("found_inside", folder / "jobs")
    assert (created.entry, created.folder) == ("parcels.sending:found_inside", "")

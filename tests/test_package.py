"""The package as a user gets it: built, installed in an empty environment, and used from another folder."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml

from tests.test_compiled import read_only, without_privilege

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPT = ROOT / "tests" / "typing" / "user_script.py"
FIT = """
import csrr
model = csrr.CSRR(neighbors=5, reg_low_rank="noise", max_iter=20).fit(csrr.read("clicks.csv"))
print(csrr.__file__, csrr.__version__, model.recommend("u1", k=3).items.shape, sep="\\n")
"""


def run(*command, cwd, **more):
    """Run a command that must end well, and return what it printed."""
    return finish(*command, cwd=cwd, **more).stdout


def finish(*command, cwd, home=None, **more):
    """Run a command that must end well."""
    # Neither the checkout nor what it compiled must be found.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    if home is not None:
        env |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(source, target, *kinds):
    kinds = [word for kind in kinds for word in ("-t", kind)]
    run(sys.executable, "-m", "hatchling", "build", "--directory", target, *kinds, cwd=source)
    return sorted(target.iterdir())


def read_wheel(path):
    """The files of a wheel by name."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    wheel, source = build(ROOT, folder, "sdist", "wheel")
    return wheel, source


@pytest.fixture(scope="module")
def python(archives, tmp_path_factory):
    """The Python of a new environment that has the wheel, and sees what is installed here, but not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    found = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", found, "install", "--no-deps", "--no-index", archives[0], cwd=folder)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A path in a .pth file is searched last, and .pth files there, such as that of a checkout, have no say.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return found


@pytest.fixture
def elsewhere(tmp_path):
    """A folder with a log in it, far from the checkout."""
    pairs = [f"u{user},i{(user * step) % 11}\n" for user in range(30) for step in range(1, 6)]
    (tmp_path / "clicks.csv").write_text("user,item\n" + "".join(pairs))
    return tmp_path


def test_the_wheel_holds_the_package_and_nothing_else(archives):
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and path.suffix in (".py", ".pyi", ".html", ".css", ".js", ".svg", ".typed")
    }
    files = read_wheel(archives[0])
    info = f"csrr-{PROJECT['version']}.dist-info"
    assert {name for name in files if not name.startswith(info)} == wanted
    assert {"csrr/py.typed", "csrr_paper/templates/page.html", "csrr/models/csrr.py"} < wanted
    metadata = files[f"{info}/METADATA"].decode()
    assert f"Version: {PROJECT['version']}\n" in metadata
    assert f"Requires-Python: {PROJECT['requires-python']}\n" in metadata
    assert {f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"} < set(files)


def test_the_source_archive_makes_the_same_wheel_and_has_the_tests(archives, tmp_path):
    with tarfile.open(archives[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"tests", "docs", "benchmarks", "CITATION.cff", "CHANGELOG.md"} < {path.name for path in source.iterdir()}
    junk = ("*.pyc", "*.nbi", "*.csrr", ".hypothesis", "build")
    assert [path for pattern in junk for path in source.rglob(pattern)] == []
    (wheel,) = build(source, tmp_path / "again", "wheel")
    assert wheel.name == archives[0].name
    assert read_wheel(wheel) == read_wheel(archives[0])


def test_the_installed_package_fits_from_python_and_from_the_shell(python, elsewhere):
    home, version, shape = run(python, "-c", FIT, cwd=elsewhere).splitlines()
    assert Path(home).is_relative_to(python.parents[1])
    assert version == PROJECT["version"]
    assert shape == "(1, 3)"
    command = python.with_name("csrr")
    assert run(command, "--version", cwd=elsewhere) == f"csrr {PROJECT['version']}\n"
    run(command, "fit", "clicks.csv", "-o", "m.csrr", "--model", "ItemKNN", cwd=elsewhere)
    _, *lines = run(command, "recommend", "m.csrr", "--user", "u1", "-k", "3", cwd=elsewhere).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_the_installed_package_works_where_only_the_results_can_be_written(python, elsewhere, tmp_path):
    """As in a container whose files are read-only, or for the user of a service, who has no home."""
    home = tmp_path / "home"
    home.mkdir()
    for path in python.parents[1].rglob("*.nb[ic]"):
        path.unlink()
    commands = {
        "fit": ("clicks.csv", "-o", "m.csrr", "--model", "ItemKNN"),
        "recommend": ("m.csrr", "--user", "u1", "-k", "3"),
    }
    with read_only(python.parents[1]), read_only(home):
        for name, words in commands.items():
            shut = {"home": home, "preexec_fn": without_privilege}
            done = finish(python.with_name("csrr"), name, *words, cwd=elsewhere, **shut)
            (told,) = [line for line in done.stderr.splitlines() if "cannot be kept" in line]
            assert "set NUMBA_CACHE_DIR to a folder that can be written" in told
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["1", "2", "3"]


def test_what_a_user_does_runs_and_has_its_types(python, tmp_path):
    pytest.importorskip("basedpyright")
    run(python, "-W", "error", SCRIPT, tmp_path, cwd=tmp_path)
    checker = (sys.executable, "-m", "basedpyright", "--pythonpath", python, "--outputjson")
    found = json.loads(run(*checker, "--project", SCRIPT.parent, cwd=tmp_path))
    assert [each["message"] for each in found["generalDiagnostics"]] == []
    assert found["summary"]["filesAnalyzed"] == 1


def test_the_version_stands_in_one_place():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == PROJECT["version"]
    assert f"\n## {PROJECT['version']} (" in (ROOT / "CHANGELOG.md").read_text()
    spelled = re.compile(rf"[\"']{re.escape(PROJECT['version'])}[\"']")
    assert [path for path in (ROOT / "src").rglob("*.py") if spelled.search(path.read_text())] == []


def test_what_continuous_integration_installs_is_named_by_a_hash():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    actions = re.findall(r"uses: (\S+)", text)
    assert len(actions) >= 4
    assert [each for each in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)] == []
    installed = re.findall(r"pip install.*", text + (ROOT / "Makefile").read_text())
    # csrr itself, on what its users have, and where the lock names files of another system.
    free = [each for each in installed if "--require-hashes" not in each]
    assert [each for each in free if "dist/*.whl" not in each and " -e " not in each] == []
    locks = [(ROOT / f"requirements-{name}.txt").read_text().splitlines()[1:] for name in ("dev", "audit")]
    assert all(re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for lines in locks for line in lines)
    built = {*re.search(r"\^\((\S+)\)==", text)[1].split("|")}
    assert built < {line.partition("==")[0] for line in locks[0]}
    needed = [each for each in requires("hatchling") if "python_version" not in each]
    assert built == {"hatchling", *(re.match(r"[\w-]+", each)[0] for each in needed)}


def test_the_citation_names_the_paper():
    paper = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    assert [each["family-names"] for each in paper["authors"]] == ["Yang", "Zhao", "Gao", "Liu"]
    assert paper["title"] in (ROOT / "README.md").read_text()

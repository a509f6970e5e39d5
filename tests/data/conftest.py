import zipfile

import pytest


@pytest.fixture
def empty_data_dir(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("data_dir")
    monkeypatch.setenv("CSRR_DATA_DIR", str(folder))
    return folder


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file, or a zip archive of files, and returns its path."""

    def write_file(name, content, encoding="utf-8"):
        path = tmp_path / name
        if isinstance(content, dict):
            with zipfile.ZipFile(path, "w") as archive:
                for member, text in content.items():
                    archive.writestr(member, text.encode(encoding))
        else:
            path.write_bytes(content.encode(encoding) if isinstance(content, str) else content)
        return path

    return write_file

"""Takes the picture of the page for its recipe: python -m docs.make.page_shot writes docs/figures/page.jpg."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from examples.demo_serve import make_shop

import csrr
from csrr.serve.page.made import PROGRAM, Made

TARGET = Path(__file__).parents[1] / "figures" / "page.jpg"
PERSON, SIZE = 42, {"width": 1120, "height": 720}


def make_model(folder: Path) -> Path:
    """Fit, calibrate and save a model of the demo's shop."""
    early, late = make_shop(folder)
    model = csrr.CSRR(miss_cost=20, false_alarm_cost=1).fit(early)
    model.set_items(folder / "items.csv").calibrate(late)
    model.save(folder / "model.csrr")
    return folder / "model.csrr"


def main() -> None:
    """Serve a model, look for noise in it, and take a picture of a person."""
    import uvicorn
    from playwright.sync_api import sync_playwright

    from csrr.serve.app import make_app

    with tempfile.TemporaryDirectory() as folder:
        app = make_app(make_model(Path(folder)))
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        thread.start()
        while not server.started:
            time.sleep(0.05)
        made = Made(app.served.file)
        app.served.file.with_suffix(".page").mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-c", PROGRAM, os.fspath(app.served.file), "noise"], check=True)  # noqa: S603
        assert made.state("noise") == "ready"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/ui#/person/{PERSON}")
            page.wait_for_selector("main h1")
            page.screenshot(path=TARGET, type="jpeg", quality=70)
            browser.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()

"""Checks of the built documentation site: its links, and what a reader sees in a headless browser."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Looked up in the search of the site; each must be found.
QUERIES = ("logical_divide", "swizzle", "rmsnorm", "autotune", "fly.copy_atom_call")
NARROW = (390, 844)
WIDE = (1400, 1000)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attributes}
        self.anchors.update(given[k] for k in ("id", "name") if k in given)
        for key in ("href", "src"):
            if key in given and tag in ("a", "img", "script", "link"):
                self.links.append(given[key])


def broken(site: Path) -> list[str]:
    """Links of the site that lead nowhere, and anything it would load from elsewhere."""
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            where = f"{path.relative_to(site)}: {link}"
            if not target.exists():
                found.append(f"{where} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{where}: no such place on that page")
    return found


def _serve(site: Path) -> http.server.ThreadingHTTPServer:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def in_browser(site: Path) -> list[str]:
    """Every page opened in headless chromium: errors of scripts, search, dark mode, a narrow screen."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver_path:
        return ["no chromium here: apt-get install chromium chromium-driver, or run with --no-browser"]
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    server = _serve(site)
    root = f"http://127.0.0.1:{server.server_port}/"
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        return [*_narrow_pages(driver, root, site), *_dark_mode(driver, root), *_search(driver, root)]
    finally:
        driver.quit()
        server.shutdown()


def _narrow_pages(driver: Any, root: str, site: Path) -> Iterator[str]:
    """What is wrong with every page on the screen of a phone, and what its scripts complain of."""
    driver.set_window_size(*NARROW)
    # A phone's width for certain: a window may be no narrower than its frame.
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": NARROW[0], "height": NARROW[1], "deviceScaleFactor": 1, "mobile": True})
    for path in sorted(site.rglob("*.html")):
        name = str(path.relative_to(site))
        driver.get(root + name)
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        if wide > NARROW[0] + 1:
            yield f"{name}: {wide} pixels wide on a screen of {NARROW[0]}"
        if name != "404.html" and not driver.execute_script("return document.querySelector('h1')?.innerText"):
            yield f"{name}: has no heading"
        yield from (f"{name}: {entry['message'][:200]}" for entry in driver.get_log("browser")
                    if entry["level"] == "SEVERE" and "favicon" not in entry["message"])
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def _dark_mode(driver: Any, root: str) -> Iterator[str]:
    driver.set_window_size(*WIDE)
    driver.get(root + "index.html")
    before = driver.execute_script("return document.body.getAttribute('data-md-color-scheme')")
    driver.execute_script("document.querySelector('form.md-header__option label:not([hidden])').click()")
    after = driver.execute_script("return document.body.getAttribute('data-md-color-scheme')")
    if {before, after} != {"default", "slate"}:
        yield f"dark mode: the scheme is {before} and after the switch {after}"


def _search(driver: Any, root: str) -> Iterator[str]:
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    for query in QUERIES:
        driver.get(root + f"index.html?q={query}")
        try:
            WebDriverWait(driver, 20).until(
                lambda d: d.find_elements(By.CSS_SELECTOR, ".md-search-result__item a[href]")
            )
        except TimeoutException:
            yield f"search: nothing found for {query!r}"

"""A headless Chromium over its DevTools protocol: what it logs, asks for, lays out and draws."""

import asyncio
import base64
import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

_SECONDS = 30
FAINT = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const over = (top, below) => {
    const share = top.length < 4 ? 1 : top[3];
    return [0, 1, 2].map(at => share * top[at] + (1 - share) * below[at]);
  };
  const behind = one => {
    const layers = [];
    for (let at = one; at; at = at.parentElement)
      layers.push(parts(getComputedStyle(at).backgroundColor));
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255]);
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.closest('svg')) continue;
    if (!one.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const style = getComputedStyle(one);
    const back = behind(one);
    const [a, b] = [light(over(parts(style.color), back)), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24;
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${one.innerText}: ${ratio.toFixed(1)}`);
  }
  return faint;
})()
"""
"""Text whose contrast is below what WCAG 2.2 asks for at level AA."""


def chromium() -> str | None:
    """Return the browser of this machine, or None."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def chromium_or_skip() -> str:
    """Return the browser of this machine; skip the test without one."""
    found = chromium()
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


@dataclass
class Tab:
    """One page of the browser."""

    socket: aiohttp.ClientWebSocketResponse
    requests: list[str] = field(default_factory=list)
    """URLs that it asked for."""
    logged: list[str] = field(default_factory=list)
    """What it wrote to the console, and errors."""
    _number: int = 0
    _loaded: bool = False

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return what a method of the protocol answers."""
        self._number += 1
        await self.socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self.socket.receive_json(timeout=_SECONDS)
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._event(message)

    def _event(self, message: dict[str, Any]) -> None:
        method, values = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Log.entryAdded":
            self.logged.append(values["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.logged.append(str(values["args"]))
        elif method == "Runtime.exceptionThrown":
            self.logged.append(values["exceptionDetails"]["text"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    async def open(self, url: str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Open a page in a window of a width, and wait until it has loaded."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        await self.call("Page.navigate", url=url)
        while not self._loaded:
            self._event(await self.socket.receive_json(timeout=_SECONDS))

    async def value(self, script: str) -> Any:
        """Return what an expression of JavaScript is."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def picture(self, height: int | None = None) -> bytes:
        """Return the page as PNG: the whole of it, or that many pixels from its top."""
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        area = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"]}
        made = await self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, clip={**area, "scale": 1}
        )
        return base64.b64decode(made["data"])


@contextlib.asynccontextmanager
async def tab(binary: str) -> AsyncGenerator[Tab]:
    """Start a browser of its own and yield its page; it ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [binary, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        process = subprocess.Popen(
            [*command, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            async with aiohttp.ClientSession() as session:
                address = await _address(session, Path(folder) / "DevToolsActivePort")
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    yield Tab(socket)
        finally:
            process.kill()
            process.wait()


async def _address(session: aiohttp.ClientSession, file: Path) -> str:
    """Return the address of the first page, once the browser has written its port."""
    async with asyncio.timeout(_SECONDS):
        while not (file.exists() and "\n" in file.read_text()):
            await asyncio.sleep(0.05)
    port = file.read_text().split()[0]
    async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = await answer.json()
    return next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")

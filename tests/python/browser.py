"""Chromium without a window, driven by chromedriver (WebDriver, plain HTTP)."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request


def missing():
    """Which program is not there, or an empty text."""
    for names in (["chromium", "chromium-browser", "google-chrome"], ["chromedriver"]):
        if not any(shutil.which(name) for name in names):
            return names[0]
    return ""


class Browser:
    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.base = f"http://127.0.0.1:{port}"
        self.until(lambda: self.call("GET", "/status")["ready"])
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += "/session/" + session["sessionId"]

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def call(self, method, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.base + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:2000]) from None

    def until(self, condition, seconds=30):
        """Waits for what the browser does in its own time."""
        end = time.monotonic() + seconds
        while True:
            try:
                if result := condition():
                    return result
            except OSError:
                pass
            if time.monotonic() > end:
                raise AssertionError("the browser did not come to it")
            time.sleep(0.02)

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def script(self, text, *arguments):
        return self.call("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def prefer(self, scheme, media=""):
        self.devtools("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def pointer(self, *moves):
        """Moves are (x, y), "down" or "up"."""
        actions = []
        for move in moves:
            if isinstance(move, str):
                actions.append({"type": "pointerDown" if move == "down" else "pointerUp", "button": 0})
            else:
                actions.append({"type": "pointerMove", "x": round(move[0]), "y": round(move[1]), "duration": 0})
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.call("POST", "/actions", {"actions": [pointer]})

    def keys(self, text):
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def errors(self):
        """What the browser has complained of since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

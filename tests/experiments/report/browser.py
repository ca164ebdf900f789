"""Drives a headless Chromium through the DevTools protocol over a pipe: no driver, no port, no package."""

import base64
import functools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "google-chrome")
SECONDS = 60  # for an answer, on a busy machine


class BrowserError(Exception):
    pass


@functools.cache
def find_browser():
    """The path of a Chromium that runs, or None: some systems have but a note under its name."""
    for name in (os.environ.get("ATTEST_CHROMIUM"), *NAMES):
        path = shutil.which(name) if name else None
        if path and subprocess.run([path, "--version"], capture_output=True, timeout=SECONDS).returncode == 0:
            return path
    return None


class Browser:
    """One page. Its console errors and uncaught exceptions are in `errors`, its requests in `requests`."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="attest-chromium-")
        to_read, to_write = os.pipe(), os.pipe()  # the browser reads from 3 and writes to 4
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "--no-sandbox",
                   "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "about:blank"]
        command = ["bash", "-c", f'exec "$@" 3<&{to_read[0]} 4>&{to_write[1]}', "bash", program, *options]
        self.process = subprocess.Popen(command, pass_fds=(to_read[0], to_write[1]), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read[0])
        os.close(to_write[1])
        self.to_browser, self.from_browser = to_read[1], to_write[0]
        self.received, self.count, self.session = b"", 0, None
        self.errors, self.requests, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for descriptor in (self.to_browser, self.from_browser):  # the browser ends with its pipe
            os.close(descriptor)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder.name, ignore_errors=True)
        self.folder._finalizer.detach()

    def _message(self, until):
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, until - time.monotonic()))
            part = os.read(self.from_browser, 1 << 20) if ready else b""
            if not part:
                raise BrowserError("the browser does not answer")
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

    def _note(self, event):
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
            self.errors.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"][:100])
        self.events.append(method)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._message(until)
            if answer.get("id") != self.count:
                self._note(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def run(self, script):
        """The value of an expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True,
                           userGesture=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"].get("exception", {}).get("description", script))
        return answer["result"].get("value")

    def wait(self, condition):
        until = time.monotonic() + SECONDS
        while not self.run(condition):
            if time.monotonic() > until:
                raise BrowserError(f"never true: {condition}")
            time.sleep(0.01)

    def open(self, path, address="", width=1280, height=900, theme="light"):
        """Opens a report, and waits until its map is drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{path}{address}")
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'")

    def key(self, key, code=None):
        """Presses a key: "Tab", "ArrowRight", "+"."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "PageUp": 33,
                 "PageDown": 34, "End": 35, "Home": 36, " ": 32}
        more = {"windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        if len(key) == 1 or key == "Enter":
            more["text"] = "\r" if key == "Enter" else key
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **more)

    def pointer(self, x, y, click=False):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))

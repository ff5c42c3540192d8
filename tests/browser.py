"""A page in a headless browser, for tests of what its scripts do."""

import itertools
import json
import os
import shutil
import subprocess
import sys

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


# a browser reads commands from 3 and answers on 4
CONNECT = """import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def program():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    """One page in a headless browser, driven by its own protocol over two pipes."""

    def __init__(self, path, folder, width=1400, dark=False):
        read, self._write = os.pipe()
        self._read, write = os.pipe()

        command = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        command += [f"--user-data-dir={folder}", f"--window-size={width},1200", "about:blank"]
        command += ["--force-dark-mode"] if dark else []
        command = [sys.executable, "-c", CONNECT, str(read), str(write), *command]
        self._process = subprocess.Popen(
            command, pass_fds=(read, write), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read)
        os.close(write)
        self._numbers, self._buffer = itertools.count(1), b""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        phone = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        self._call("Emulation.setDeviceMetricsOverride", **phone)  # a window is at least 500 pixels wide
        self._call("Page.navigate", url=path.as_uri())
        self._wait()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def ask(self, code):
        """The value of an expression, after the page has done what it asks for."""
        found = self._call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def choose(self, selector, value):
        """Set a control as a user would, and let the page react."""
        self.ask(
            f"(() => {{ const e = document.querySelector('{selector}'); e.value = {json.dumps(value)};"
            "for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def _wait(self):
        while not self.ask("document.readyState == 'complete' && !!document.querySelector('.picture svg')"):
            pass

    def _call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self):
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser ended"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)


needs_browser = pytest.mark.skipif(program() is None, reason="needs chromium")

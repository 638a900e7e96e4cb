"""Drive a headless Chromium over a pair of pipes: no package, no port.

    with Chromium("/folder/for/its/profile") as browser:
        page = browser.open("file:///x/report.html")
        page.evaluate("document.title")
        page.requests, page.errors      # URLs asked for, and what the console said of errors
"""
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"]


class Chromium:
    def __init__(self, profile, *flags, deadline_s=120):
        # The browser reads commands from descriptor 3 and writes answers to 4.
        self.commands_out, self.commands_in = os.pipe()
        self.answers_out, self.answers_in = os.pipe()
        self.deadline_s, self.buffer, self.last, self.pages = deadline_s, b"", 0, {}

        def hand_over():
            # Away from 3 and 4 first, which may be the pipes' own.
            command, answer = (fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (self.commands_out, self.answers_in))
            os.dup2(command, 3)
            os.dup2(answer, 4)

        self.process = subprocess.Popen([PROGRAM, *FLAGS, *flags, "--user-data-dir=" + profile, "about:blank"], preexec_fn=hand_over,
                                        close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(self.commands_out)
        os.close(self.answers_in)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        try:
            self.call("Browser.close")  # its other processes write to the profile until then
            self.process.wait(10)
        except (RuntimeError, OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands_in)
        os.close(self.answers_out)

    def _message(self, until):
        """Return the next message, or raise TimeoutError."""
        while b"\0" not in self.buffer:
            if not select.select([self.answers_out], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError(f"the browser is silent for {self.deadline_s} s")
            data = os.read(self.answers_out, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        """Call a method of the protocol and return its result; events on the way go to their pages."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.commands_in, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.deadline_s
        while True:
            got = self._message(until)
            if got.get("id") == self.last:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']['message']}")
                return got["result"]
            page = self.pages.get(got.get("sessionId"))
            if page and "method" in got:
                page.note(got["method"], got["params"])

    def open(self, url, width=1280, height=900):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        self.pages[page.session] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(domain + ".enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.go(url)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.requests, self.errors, self.loaded = [], [], False

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def note(self, method, parameters):
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append("log: " + parameters["entry"]["text"])

    def go(self, url):
        self.loaded = False
        self.call("Page.navigate", url=url)
        self.wait(lambda: self.loaded or self.evaluate("document.readyState") == "complete", "the page to load")

    def evaluate(self, expression):
        """Evaluate JavaScript, wait for its promise, return the value."""
        got = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def wait(self, condition, what):
        until = time.monotonic() + self.browser.deadline_s
        while not (condition() if callable(condition) else self.evaluate(condition)):
            if time.monotonic() > until:
                raise TimeoutError(f"waited {self.browser.deadline_s} s for {what}")
            time.sleep(0.01)

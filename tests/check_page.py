#!/usr/bin/env python3
"""Opens pages of `lockstep report` in headless Chromium and checks them as a reader would use them.

    tests/check_page.py [--pictures DIR] PAGE...

For each page: no error is on the console, nothing is asked for but the file, every figure is seen and has a text
alternative, no text of it is cut, every table sorts by a click on each head, the page is no wider than a phone or a
screen, the switch of the theme works, and it prints. --pictures also keeps NAME-WIDTH-THEME.png and NAME.pdf.
Exits 77 without Chromium, 1 when something does not hold.
"""
import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --remote-debugging-pipe --hide-scrollbars").split()
PHONE, SCREEN, PAPER = 360, 1280, 720  # CSS pixels; A4 within its margins has 720 or so

# Run in the page; each returns a list of what does not hold.
FIGURES = """[...document.querySelectorAll('figure')].flatMap((figure, i) => {
    const svg = [...figure.querySelectorAll('svg[role=img]')].find(x => x.getBoundingClientRect().width);
    const box = svg && svg.getBoundingClientRect(), bad = [];
    if (!svg || box.width < 100 || box.height < 100) return ['figure ' + i + ' is not seen'];
    if (!svg.querySelector('title').textContent || !svg.querySelector('desc').textContent)
        bad.push('figure ' + i + ' has no text alternative');
    for (const text of svg.querySelectorAll('text')) {
        const t = text.getBoundingClientRect();
        if (t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 || t.bottom > box.bottom + 1)
            bad.push('figure ' + i + ' cuts "' + text.textContent + '"');
    }
    return bad;
})"""
TABLES = """[...document.querySelectorAll('table[data-table]')].flatMap((table, i) => {
    const bad = [], body = table.tBodies[0];
    if (body.rows.length < 2) return bad;
    const all = [...body.rows];
    [...table.tHead.rows[0].cells].forEach((head, at) => {
        for (const up of [true, false]) {
            head.querySelector('button').click();
            if (head.getAttribute('aria-sort') !== (up ? 'ascending' : 'descending'))
                bad.push('table ' + i + ' column ' + at + ' does not say that it is sorted');
            const v = [...body.rows].map(r => r.cells[at].dataset.v).filter(x => x !== undefined).map(Number);
            if (v.some((x, k) => k && (up ? x < v[k - 1] : x > v[k - 1])))
                bad.push('table ' + i + ' column ' + at + ' is not sorted: ' + v.slice(0, 9));
            const t = [...body.rows].map(r => r.cells[at]).filter(c => c.dataset.v === undefined &&
                c.textContent !== '-').map(c => c.textContent);
            if (t.some((x, k) => k && (x.localeCompare(t[k - 1], 'en', {numeric: true})) * (up ? 1 : -1) < 0))
                bad.push('table ' + i + ' column ' + at + ' is not sorted: ' + t.slice(0, 9));
        }
    });
    if (body.rows.length !== all.length) bad.push('table ' + i + ' has lost rows');
    return bad;
})"""
WIDTH = """document.documentElement.scrollWidth > innerWidth
    ? ['the page is ' + document.documentElement.scrollWidth + ' wide on ' + innerWidth] : []"""
THEME = """(() => {
    const button = document.getElementById('theme'), paper = () => getComputedStyle(document.body).backgroundColor;
    const before = paper(), bad = [];
    button.click();
    if (paper() === before) bad.push('the theme does not change');
    button.click();
    if (paper() !== before) bad.push('the theme does not change back');
    return bad;
})()"""


class Browser:
    """Chromium, spoken to by two pipes: it reads descriptor 3 and writes descriptor 4."""

    def __init__(self, program, home):
        ours_in, its_out = os.pipe()
        its_in, ours_out = os.pipe()

        def hand_over():
            # Away from 3 and 4 first, which may be the pipes' own.
            command, answer = (fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (its_in, its_out))
            os.dup2(command, 3)
            os.dup2(answer, 4)

        self.process = subprocess.Popen([program, *FLAGS, "--user-data-dir=" + home], preexec_fn=hand_over, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(its_in)
        os.close(its_out)
        self.input, self.output = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.session, self.events, self.rest = 0, None, [], b""

    def read(self):
        while b"\0" not in self.rest:
            part = os.read(self.input.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.output.write(json.dumps(message).encode() + b"\0")
        self.output.flush()
        while True:
            answer = self.read()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(method + ": " + answer["error"]["message"])
            return answer["result"]

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.read())

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def close(self):
        self.session = None
        try:
            self.ask("Browser.close")
        except (RuntimeError, OSError):
            pass
        self.process.wait(30)


def size(browser, width, dark, media="screen"):
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                mobile=width == PHONE)
    browser.ask("Emulation.setEmulatedMedia", media=media,
                features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])


def problems_heard(events, url):
    """Lists errors and requests that the browser told of."""
    bad = []
    for e in events:
        method, p = e.get("method"), e.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            bad.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            bad.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            bad.append("log: " + p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            asked = p["request"]["url"]
            if asked.split("#")[0] != url and not asked.startswith(("data:", "blob:")):
                bad.append("a request: " + asked)
    return bad


def pictures(browser, folder, name):
    for width, label in ((PHONE, "phone"), (SCREEN, "screen"), (PAPER, "print")):
        for dark in (False, True):
            size(browser, width, dark, "print" if label == "print" else "screen")
            shot = browser.ask("Page.captureScreenshot", captureBeyondViewport=True)
            path = os.path.join(folder, "%s-%s-%s.png" % (name, label, "dark" if dark else "light"))
            pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))


def check(browser, path, folder):
    """Opens a page; returns what does not hold."""
    url = pathlib.Path(path).resolve().as_uri()
    browser.session, browser.events = None, []
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Network", "Log"):
        browser.ask(domain + ".enable")
    browser.ask("Page.navigate", url=url)
    browser.wait("Page.loadEventFired")
    bad = []
    size(browser, SCREEN, False)
    if folder:
        pictures(browser, folder, pathlib.Path(path).resolve().parent.name)
    for width in (PHONE, SCREEN):
        for dark in (False, True):
            size(browser, width, dark)
            for look in (FIGURES, WIDTH, THEME):
                bad += ["%d wide, %s: %s" % (width, "dark" if dark else "light", b) for b in browser.value(look)]
    bad += browser.value(TABLES)
    pdf = base64.b64decode(browser.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    if not pdf.startswith(b"%PDF"):
        bad.append("it does not print")
    if folder:
        pathlib.Path(folder, pathlib.Path(path).resolve().parent.name + ".pdf").write_bytes(pdf)
    counts = browser.value("['figure', 'table', 'section'].map(x => document.querySelectorAll(x).length)")
    if not counts[2] or not counts[1]:
        bad.append("it has no section or no table")
    bad += problems_heard(browser.events, url)
    browser.session = None
    browser.ask("Target.closeTarget", targetId=target)
    print("%s: %d figures, %d tables, %d problems" % (path, counts[0], counts[1], len(bad)))
    return bad


def main(words):
    folder = None
    if words[:1] == ["--pictures"]:
        folder, words = words[1], words[2:]
        os.makedirs(folder, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("there is no chromium")
        return 77
    bad = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Browser(program, home)
        try:
            for path in words:
                bad += ["%s: %s" % (path, b) for b in check(browser, path, folder)]
        finally:
            browser.close()
    for line in bad[:40]:
        print(line)
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))

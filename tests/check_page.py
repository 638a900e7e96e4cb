#!/usr/bin/env python3
"""Opens pages of `lockstep report` in headless Chromium and checks them as a reader would use them.

    tests/check_page.py [--pictures DIR | --docs DIR] PAGE...

For each page: no error is on the console, nothing is asked for but the file, every figure is seen and has a text
alternative, no text of it is cut, every table sorts by a click on each head, the page is no wider than a phone or a
screen, the switch of the theme works, and it prints. --pictures also keeps NAME-WIDTH-THEME.png and NAME.pdf; --docs
report-screen.png, report-phone.png and report-print.png, the small ones of docs/report.md.
Exits 77 without Chromium, 1 when something does not hold.
"""
import base64
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "rigs"))
from chromium import PROGRAM, Chromium  # noqa: E402

PHONE, SCREEN, PAPER = 360, 1280, 720  # CSS pixels; A4 within its margins has 720 or so

# Those of --docs: CSS pixels, pixels of the picture to one of them, dark.
SMALL = {"screen": (1200, 2280, 0.5, False), "phone": (PHONE, 1000, 0.9, True), "print": (PAPER, 1020, 0.75, False)}

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


def size(page, width, dark, media="screen"):
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                mobile=width == PHONE)
    page.call("Emulation.setEmulatedMedia", media=media,
                features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])


def problems_heard(page, url):
    """Lists errors and requests that the browser told of."""
    asked = [r for r in page.requests if r.split("#")[0] != url and not r.startswith(("data:", "blob:"))]
    return page.errors + ["a request: " + r for r in asked]


def pictures(page, folder, name):
    for width, label in ((PHONE, "phone"), (SCREEN, "screen"), (PAPER, "print")):
        for dark in (False, True):
            size(page, width, dark, "print" if label == "print" else "screen")
            shot = page.call("Page.captureScreenshot", captureBeyondViewport=True)
            path = os.path.join(folder, "%s-%s-%s.png" % (name, label, "dark" if dark else "light"))
            pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))


def small_pictures(page, folder):
    for label, (width, height, scale, dark) in SMALL.items():
        size(page, width, dark, "print" if label == "print" else "screen")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        shot = page.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pathlib.Path(folder, "report-%s.png" % label).write_bytes(base64.b64decode(shot["data"]))


def check(browser, path, folder, small):
    """Opens a page; returns what does not hold."""
    url = pathlib.Path(path).resolve().as_uri()
    page = browser.open(url, SCREEN)
    bad = []
    size(page, SCREEN, False)
    if folder:
        (small_pictures(page, folder) if small else pictures(page, folder, pathlib.Path(path).resolve().parent.name))
    for width in (PHONE, SCREEN):
        for dark in (False, True):
            size(page, width, dark)
            for look in (FIGURES, WIDTH, THEME):
                bad += ["%d wide, %s: %s" % (width, "dark" if dark else "light", b) for b in page.evaluate(look)]
    bad += page.evaluate(TABLES)
    pdf = base64.b64decode(page.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    if not pdf.startswith(b"%PDF"):
        bad.append("it does not print")
    if folder and not small:
        pathlib.Path(folder, pathlib.Path(path).resolve().parent.name + ".pdf").write_bytes(pdf)
    counts = page.evaluate("['figure', 'table', 'section'].map(x => document.querySelectorAll(x).length)")
    if not counts[2] or not counts[1]:
        bad.append("it has no section or no table")
    bad += problems_heard(page, url)
    print("%s: %d figures, %d tables, %d problems" % (path, counts[0], counts[1], len(bad)))
    return bad


def main(words):
    folder, small = None, words[:1] == ["--docs"]
    if words[:1] == ["--pictures"] or small:
        folder, words = words[1], words[2:]
        os.makedirs(folder, exist_ok=True)
    if not PROGRAM:
        print("there is no chromium")
        return 77
    bad = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, Chromium(home, "--hide-scrollbars") as browser:
        for path in words:
            bad += ["%s: %s" % (path, b) for b in check(browser, path, folder, small)]
    for line in bad[:40]:
        print(line)
    return 1 if bad else 0


sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""What-if in a page, in a browser, against the program.

    tests/page/whatif.py PROGRAM PAGE FOLDER COUNT

Moves the sliders and fields of the page to COUNT random settings, the seed being the same each time, and runs the command
line that the page then shows: exit code and texts must be equal, numbers within 1e-9, relative (page/model.js and
docs/report.md say why not to the digit). The table that a reader sees must have these numbers. Then: the state comes back
from the fragment; a dropped job changes the answers; nothing but the file and a blob was asked for, and the console says
nothing. At last the page without JavaScript, and with JavaScript but without WebAssembly, says so. Exit 77: no Chromium.
"""
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "rigs"))
import chromium  # noqa: E402

TOLERANCE, CANCELLED = 1e-9, 1e-15  # as in tests/page/equal.js
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
ROOT = "(document.getElementById('whatif') || {dataset: {}})"  # a page that loads has none yet
AT_REST = f"{ROOT}.dataset.state === 'rest' && {ROOT}.dataset.waiting === '0'"
largest = 0.0


def compare(what, ours, theirs):
    """Fail unless two texts are equal but for the last digits of numbers."""
    global largest
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        a, b = next((a, b) for a, b in zip(ours.split("\n") + [""], theirs.split("\n") + [""]) if NUMBER.sub("#", a) != NUMBER.sub("#", b))
        sys.exit(f"{what}: the page has '{a}', the program '{b}'")
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs)):
        if a != b:
            x, y = float(a), float(b)
            if abs(x - y) < CANCELLED:
                continue
            error = abs(x - y) / max(abs(x), abs(y))
            largest = max(largest, error)
            if error > TOLERANCE:
                sys.exit(f"{what}: the page has {a}, the program {b}")


def ask_program(program, folder, words):
    out = os.path.join(folder, "forecast.json")
    if os.path.exists(out):
        os.remove(out)
    ran = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True)
    forecast = open(out).read() if os.path.exists(out) else ""
    return ran.returncode, ran.stdout, forecast, ran.stderr


def shown_by(page):
    """Return what the page shows now."""
    return page.evaluate(f"({{words: JSON.parse({ROOT}.dataset.words), code: {ROOT}.lockstep.code, page: {ROOT}.lockstep.page, "
                          f"forecast: {ROOT}.lockstep.forecast, error: {ROOT}.lockstep.error, "
                          f"command: {ROOT}.querySelector('.command').textContent, "
                          f"rows: [...{ROOT}.querySelectorAll('.numbers tbody tr')].map(r => r.cells[0].textContent + ' ' + r.cells[2].textContent)}})")


def check_answer(program, folder, shown):
    """Compare what a page showed with the program."""
    code, printed, forecast, said = ask_program(program, folder, shown["words"])
    name = " ".join(shown["words"])
    if code != shown["code"]:
        sys.exit(f"{name}: exit code {shown['code']} in the page, {code} of the program")
    compare(name, shown["page"], printed)
    if code != 0:
        if shown["error"] not in said:
            sys.exit(f"{name}: the page says '{shown['error']}', the program '{said}'")
    compare(name, shown["forecast"], forecast)
    if not forecast:
        return
    seen = {}
    for point in json.loads(forecast)["points"]:
        if point["efficiency"] is not None:
            seen.setdefault(point["gpus"], f"{point['gpus']} {100 * point['efficiency']:.0f} %")
    if len(shown["rows"]) != len(seen) or any(a.split()[0] != b.split()[0] or abs(int(a.split()[1]) - int(b.split()[1])) > 1
                                              for a, b in zip(shown["rows"], seen.values())):
        sys.exit(f"{name}: the table shows {shown['rows']}, the forecast has {list(seen.values())}")
    if shown["command"] != "lockstep " + " ".join(w for w in shown["words"] if not re.match("--(draws|format|out)=", w)):
        sys.exit(f"{name}: the page shows '{shown['command']}'")


def move(page, rng):
    """Set some of the fields at random, as a reader would."""
    fields = page.evaluate(f"[...{ROOT}.querySelectorAll('[id^=w-]:not([id$=-field])')].map(e => [e.id, e.type, Number(e.max) || 0, e.length || 0])")
    script = ""
    for name, kind, most, options in rng.sample(fields, rng.randint(1, 4)):
        if kind == "range":
            script += f"set('{name}', {rng.randint(0, most)});"
        elif kind == "select-one":
            script += f"set('{name}', document.getElementById('{name}').options[{rng.randrange(options)}].value);"
        else:
            script += f"set('{name}', '{rng.choice(['', '0.5', '2', '1e6'])}');"
    page.evaluate("{const set = (id, v) => {const e = document.getElementById(id); e.value = v; "
                  "e.dispatchEvent(new Event('input', {bubbles: true}))};" + script + "}")


def check_grid(program, folder, page):
    """Compare the heat map's numbers with the program's, and see that it is drawn."""
    page.wait(f"{ROOT}.lockstepGrid && {ROOT}.querySelector('.grid code').textContent === 'lockstep ' + {ROOT}.lockstepGrid.words.join(' ')", "the heat map")
    grid = page.evaluate(f"({{words: {ROOT}.lockstepGrid.words, forecast: {ROOT}.lockstepGrid.forecast, cells: {ROOT}.querySelectorAll('.grid svg rect').length}})")
    forecast = ask_program(program, folder, [*grid["words"], "--draws=20", "--out=forecast.json"])[2]
    compare("the heat map", grid["forecast"], forecast)
    if grid["cells"] < 30:
        sys.exit(f"the heat map has {grid['cells']} cells")


def drop(page, name, text):
    page.evaluate("{const d = new DataTransfer(); d.items.add(new File([" + json.dumps(text) + "], " + json.dumps(name) + ")); "
                  "document.dispatchEvent(new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true}))}")


def check_dropped_forecast(program, folder, page):
    """A forecast that is dropped shows its own pictures; one that is none says so, and the page goes on."""
    ask_program(program, folder, ["whatif", "job.json", "cluster.json", "--gpus=16,64", "--bucket-cap=1MiB,25MiB", "--accumulation=1,4",
                                  "--anyway", "--draws=20", "--out=forecast.json"])
    with open(os.path.join(folder, "forecast.json")) as f:
        forecast = f.read()
    drop(page, "forecast.json", forecast)
    page.wait(f"{ROOT}.querySelectorAll('.charts svg').length > 4", "the pictures of a dropped forecast")
    titles = page.evaluate(f"[...{ROOT}.querySelectorAll('.charts svg > title')].map(t => t.textContent)")
    if "Which setting is best" not in titles:
        sys.exit(f"a dropped forecast shows {titles}")
    drop(page, "forecast.json", forecast.replace('"points"', '"dots"'))
    page.wait(f"{ROOT}.querySelector('.error').textContent.includes('points')", "the refusal of a file that is no forecast")


def check_print(page):
    """Paper says the settings and the command line, and has no sliders."""
    page.call("Emulation.setEmulatedMedia", media="print")
    said = page.evaluate(f"{ROOT}.innerText")
    if "Settings in force: GPUs " not in said or "lockstep " not in said or "Copy" in said or "Straggler spread\n" in said:
        sys.exit(f"printed, the what-if says {said}")
    page.call("Emulation.setEmulatedMedia", media="")


def main():
    program, path, folder, count = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    if not chromium.PROGRAM:
        sys.exit(77)
    times, answers = [], []
    url, rng = "file://" + path, random.Random(1)
    with chromium.Chromium(os.path.join(folder, "profile")) as browser:
        page = browser.open(url)
        page.wait(AT_REST, "the first answer")
        for name in ("job", "cluster"):
            with open(os.path.join(folder, name + ".json"), "w") as f:
                f.write(page.evaluate(f"document.getElementById('lk-{name}').textContent"))
        check_answer(program, folder, shown_by(page))
        check_grid(program, folder, page)
        check_print(page)
        for _ in range(count):
            # The program is asked later: while it ran the page would come to rest, and draw the heat map, each time.
            move(page, rng)
            page.wait(f"{ROOT}.dataset.waiting === '0'", "an answer")
            answers.append(shown_by(page))
            if "--draws=20" in answers[-1]["words"]:
                times.append(page.evaluate(f"Number({ROOT}.dataset.ms)"))
            if rng.random() < 0.1:
                page.evaluate("document.querySelector('#whatif form > button').click()")
            elif rng.random() < 0.1:
                page.wait(AT_REST, "rest")
                answers.append(shown_by(page))
        page.wait(AT_REST, "rest")
        rested = page.evaluate(f"{ROOT}.dataset.words")
        if "--draws" in rested:
            sys.exit(f"at rest the page asks for fewer draws: {rested}")
        answers.append(shown_by(page))
        for shown in answers:
            check_answer(program, folder, shown)

        page.call("Page.reload")
        page.wait(f"{ROOT}.dataset.words === {json.dumps(rested)} && {AT_REST}", "the state to come back from the fragment")

        with open(os.path.join(folder, "job.json")) as f:
            other = re.sub(r'"name": *"[^"]*"', '"name": "dropped <b>job</b>"', f.read(), count=1)
        with open(os.path.join(folder, "job.json"), "w") as f:
            f.write(other)
        drop(page, "job.json", other)
        page.wait(f"({ROOT}.lockstep.forecast || '').includes('dropped') && {AT_REST}", "the dropped job")
        check_answer(program, folder, shown_by(page))
        if page.evaluate(f"{ROOT}.querySelectorAll('b').length"):
            sys.exit("a job's name became markup")
        check_dropped_forecast(program, folder, page)

        for request in page.requests:
            if not (request.split("#")[0] == url or request.startswith(("blob:", "data:"))):
                sys.exit(f"the page asks for {request}")
        if page.errors:
            sys.exit(f"the console says {page.errors}")
        plain = browser.open("about:blank")
        plain.call("Emulation.setScriptExecutionDisabled", value=True)
        plain.go(url)
        document = plain.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        place = plain.call("DOM.querySelector", nodeId=document, selector="#whatif")["nodeId"]
        said = plain.call("DOM.getOuterHTML", nodeId=place)["outerHTML"]
        if "where JavaScript runs" not in said:
            sys.exit(f"without JavaScript the page says {said}")
    with chromium.Chromium(os.path.join(folder, "jitless"), "--js-flags=--jitless") as browser:
        page = browser.open(url)
        page.wait(f"{ROOT}.dataset.state === 'absent'", "the page to say that it has no WebAssembly")
        if "lockstep whatif" not in page.evaluate(f"{ROOT}.innerText") or page.errors:
            sys.exit(f"without WebAssembly: {page.evaluate(ROOT + '.innerText')} {page.errors}")
    commands = {" ".join(shown["words"]): shown["code"] for shown in answers}
    print(f"{count} settings, {len(commands)} command lines, {sum(code != 0 for code in commands.values())} of them refused; largest relative difference {largest:.1e}; "
          f"while dragging an answer takes {sorted(times)[len(times) // 2]:.0f} ms (median of {len(times)})")


main()

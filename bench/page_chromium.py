#!/usr/bin/env python3
"""Times a change of the what-if in a page, in headless Chromium.

    bench/page_chromium.py PAGE [CHANGES]       PAGE: of `lockstep report JOB CLUSTER`; default 100 changes

Moves sliders one after the other, each when the answer to the last one is drawn, and prints per change: the processor time of
the browser's renderer (main thread and worker: model, drawing, layout), which other work on the machine does not lengthen, and
the time from the moved slider to the drawn answer, least and median. All answers are of 11 counts from 1 to 1,024 GPUs.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "rigs"))
import chromium  # noqa: E402

ROOT = "document.getElementById('whatif')"
AT_REST = f"{ROOT} && {ROOT}.dataset.state === 'rest' && {ROOT}.dataset.waiting === '0' && {ROOT}.lockstepGrid"
# Which sliders are moved: predict alone; a network's; all that there are.
MOVES = {"batch and bucket cap": ["local-batch", "accumulation", "bucket-cap"], "network": ["node-bandwidth", "inter-latency"],
         "six settings at once": ["local-batch", "accumulation", "bucket-cap", "node-bandwidth", "inter-latency", "straggler-spread"]}


def renderers():
    """The processor time, seconds, of the browser's renderers, which are this process's descendants."""
    parents, used = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{pid}/cmdline") as f:
                kind = "--type=renderer" in f.read()
        except OSError:
            continue
        parents[pid] = fields[1]
        if kind:
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid):
        while pid in parents and pid != "1":
            pid = parents[pid]
            if pid == str(os.getpid()):
                return True
        return False

    return sum(s for pid, s in used.items() if is_ours(pid))


def main():
    if not chromium.PROGRAM:
        sys.exit("no chromium")
    page_path, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as folder, chromium.Chromium(folder) as browser:
        for name, sliders in MOVES.items():
            page = browser.open("file://" + page_path)
            page.wait(AT_REST, "the first answer")
            # In the page: each change at once behind the last answer, so that none waits for this script or rests.
            script = f"""(async () => {{
                const root = {ROOT}, sliders = {sliders}, times = [];
                for (let i = 0; i < COUNT; i++) {{
                    const before = root.dataset.words, drawn = new Promise((done) => {{
                        const seen = new MutationObserver(() => {{ seen.disconnect(); done(); }});
                        seen.observe(root, {{attributes: true, attributeFilter: ['data-ms']}});
                    }});
                    for (const slider of sliders) {{
                        const e = document.getElementById('w-' + slider);
                        e.value = (i * 3 + 1) % (Number(e.max) + 1);
                        e.dispatchEvent(new Event('input', {{bubbles: true}}));
                    }}
                    await drawn;
                    document.body.offsetHeight; /* lay it out */
                    times.push(Number(root.dataset.ms));
                }}
                return times;
            }})()"""
            page.evaluate(script.replace("COUNT", "10"))
            begun = renderers()
            times = sorted(page.evaluate(script.replace("COUNT", str(count))))
            used = 1000 * (renderers() - begun) / count
            if page.errors:
                sys.exit(f"the console says {page.errors}")
            print(f"{name}: {used:.0f} ms of processor time a change, mean of {count}; to the drawn answer {times[0]:.0f} ms at least, "
                  f"{times[count // 2]:.0f} ms median")


main()

/*
 * What-if in a page: fields and sliders in <div id="whatif">, whose answers the forecast's module (page/model.js) makes of
 * the job and cluster in <script id="lk-job"> and <script id="lk-cluster">. Each change is a command line, which is shown;
 * the fields' state is in the URL's fragment. Needs `lockstepModel`, and the module in <script id="lk-module">, gzip in
 * base64.
 */
"use strict";
(function () {
    const root = document.getElementById("whatif");
    const text = (id) => (document.getElementById(id) || {textContent: ""}).textContent;
    const DRAGGING_DRAWS = 20, REST_MS = 250, MEBI = 1 << 20;
    const OUTPUT = ["--format=json", "--out=forecast.json"];
    const files = {job: text("lk-job"), cluster: text("lk-cluster")};
    let answers, timer, changes = 0, state = {}, drawn = null;
    let base = {}; /* the current configuration, as the model has it */

    if (!root || !files.job || !files.cluster || !text("lk-module"))
        return;

    /* ---- The settings ---- */

    const powers = (from, to) => Array.from({length: Math.log2(to / from) + 1}, (_, i) => from * 2 ** i);
    const factors = ["x0.1", "x0.25", "x0.5", "x0.75", "x1", "x1.5", "x2", "x4", "x8"];
    const sharding = ["ddp", "zero1", "zero2", "zero3", "hsdp"];
    /* name: of the option and in the fragment. values: of a slider or a list; without them it is a number. now: what holds
     * where nothing is asked. machine: only whatif has it. */
    const settings = [
        {name: "gpus", label: "GPUs", values: powers(1, 1024).map(String), now: () => "64"},
        {name: "gpus-per-node", label: "GPUs a node", values: powers(1, 64).map(String), machine: true, now: () => String(base.gpus_per_node)},
        {name: "local-batch", label: "Local batch", values: powers(1, 1024).map(String), now: () => String(base.local_batch)},
        {name: "accumulation", label: "Accumulation", values: powers(1, 64).map(String), now: () => String(base.accumulation)},
        {name: "bucket-cap", label: "Bucket cap", values: [1, 2, 4, 8, 16, 25, 50, 100, 200, 400].map((n) => n + "MiB"), now: () => sizeText(base.bucket_cap_bytes)},
        {name: "sharding", label: "Sharding", values: sharding, list: true, machine: true, now: () => "ddp"},
        {name: "node-bandwidth", label: "Network rate", values: factors, machine: true, now: () => "x1"},
        {name: "inter-latency", label: "Network latency", values: factors, machine: true, now: () => "x1"},
        {name: "straggler-spread", label: "Straggler spread", values: factors, machine: true, now: () => "x1"},
        {name: "price", label: "Price of a GPU an hour", now: () => ""},
        {name: "target-samples", label: "Samples to the target", now: () => ""},
        {name: "deadline", label: "Deadline, hours", here: true, now: () => ""},
    ];

    function sizeText(bytes) {
        return bytes % MEBI ? bytes + "B" : bytes / MEBI + "MiB";
    }

    const isSet = (s) => state[s.name] !== undefined && state[s.name] !== s.now();
    const value = (s) => state[s.name] === undefined ? s.now() : state[s.name];
    const setting = (name) => settings.find((s) => s.name === name);

    /* What holds now, in words: what a print says instead of the sliders. */
    function inForce() {
        return settings.filter((s) => value(s) !== "").map((s) => `${s.label} ${value(s)}${isSet(s) && s.now() ? ` (now ${s.now()})` : ""}`).join(", ") + ".";
    }

    /* Counts of GPUs of the curve: powers of two, and the one that is asked for. */
    function counts() {
        const at = Number(value(setting("gpus"))), most = Math.max(at, 1024);
        const all = powers(1, 2 ** Math.floor(Math.log2(most)));

        return all.includes(at) ? all : all.concat(at).sort((a, b) => a - b);
    }

    /* The words of the command line that answers the state. */
    function words() {
        const set = settings.filter((s) => s.name !== "gpus" && !s.here && isSet(s));
        const command = set.some((s) => s.machine) ? "whatif" : "predict";

        return [command, "job.json", "cluster.json", "--gpus=" + counts().join(",")].concat(set.map((s) => `--${s.name}=${value(s)}`));
    }

    /* The words that ask for the heat map: bucket cap by accumulation at the chosen count, all else as it is set. */
    function gridWords() {
        const set = settings.filter((s) => !["gpus", "bucket-cap", "accumulation"].includes(s.name) && !s.here && isSet(s));

        return ["whatif", "job.json", "cluster.json", "--gpus=" + value(setting("gpus")), "--bucket-cap=1MiB,4MiB,16MiB,25MiB,100MiB,400MiB",
                "--accumulation=1,2,4,8,16"].concat(set.map((s) => `--${s.name}=${value(s)}`));
    }

    /* ---- The state in the fragment ---- */

    function readFragment() {
        const given = new URLSearchParams(location.hash.slice(1));

        state = {};
        for (const s of settings)
            if (given.has("w." + s.name))
                state[s.name] = given.get("w." + s.name);
    }

    function writeFragment() {
        const given = new URLSearchParams();

        for (const s of settings)
            if (isSet(s))
                given.set("w." + s.name, value(s));
        history.replaceState(null, "", given.size || location.hash ? "#" + given : location.href);
    }

    /* ---- The model: in a worker, else here; one request at a time, of those that wait the newest ---- */

    async function unpack(base64) {
        const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
        const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));

        return new Response(stream).arrayBuffer();
    }

    function answer(model, request) {
        const own = request.words.length === 0; /* a forecast that was dropped is only drawn */

        if (!own)
            model.remove("forecast.json");
        for (const name in request.files)
            model.put(name, request.files[name]);
        const result = own ? {code: 0, page: "", error: "", log: ""} : model.ask(request.words);
        const forecast = model.read("forecast.json");

        try {
            return Object.assign(result, {forecast, charts: forecast ? model.charts(request.view) : []});
        } catch (error) {
            return Object.assign(result, {code: 1, error: result.error || error.message, forecast: "", charts: []});
        }
    }

    function inWorker(bytes) {
        const source = `${lockstepModel};${answer};let model;
            onmessage = async (e) => {
                try {
                    model = model || await lockstepModel(e.data.bytes);
                    postMessage({result: answer(model, e.data)});
                } catch (error) {
                    postMessage({failure: String(error)});
                }
            };`;
        const url = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
        const worker = new Worker(url);

        return {
            ask: (request) => new Promise((done, failed) => {
                worker.onmessage = (e) => e.data.failure ? failed(new Error(e.data.failure)) : done(e.data.result);
                worker.onerror = (e) => { e.preventDefault(); failed(new Error(e.message || "the worker does not start")); };
                worker.postMessage(Object.assign({bytes}, request));
                bytes = undefined;
            }),
        };
    }

    async function here(bytes) {
        const model = await lockstepModel(bytes);

        return {ask: async (request) => answer(model, request)};
    }

    async function start() {
        const bytes = await unpack(text("lk-module"));
        let model, busy = false, next = null;

        try {
            model = inWorker(bytes.slice(0));
            await model.ask({files: {}, words: ["predict"]});
        } catch (error) {
            model = await here(bytes);
        }
        return async function ask(request, show) {
            if (request.waits && next) /* what somebody moved comes first */
                return;
            next = {request, show};
            if (busy)
                return;
            busy = true;
            while (next) {
                const one = next;

                next = null;
                try {
                    one.show(await model.ask(one.request));
                } catch (error) {
                    fail(error);
                }
            }
            busy = false;
        };
    }

    function fail(error) {
        const place = root.querySelector(".error") || root;

        place.textContent = `The forecast in this page stopped: ${error.message}. Reload the page, or ask lockstep in a terminal.`;
        root.dataset.state = "failed";
    }

    /* ---- The panel ---- */

    function element(name, attributes, ...children) {
        const e = document.createElement(name);

        for (const key in attributes)
            e.setAttribute(key, attributes[key]);
        e.append(...children);
        return e;
    }

    function control(s) {
        const id = "w-" + s.name, output = element("output", {for: id});
        let input, show;

        if (s.list) {
            input = element("select", {id}, ...s.values.map((v) => element("option", {value: v}, v)));
            show = () => { input.value = value(s); };
            input.addEventListener("input", () => change(s, input.value));
        } else if (s.values) {
            const field = element("input", {id: id + "-field", type: "text", size: 7, "aria-label": s.label});
            const all = () => s.values.includes(value(s)) ? s.values : s.values.concat(value(s)).sort((a, b) => parseFloat(a.replace("x", "")) - parseFloat(b.replace("x", "")));

            input = element("input", {id, type: "range", min: 0, step: 1});
            show = () => {
                input.max = all().length - 1;
                input.value = all().indexOf(value(s));
                input.setAttribute("aria-valuetext", value(s));
                field.value = value(s);
            };
            input.addEventListener("input", () => change(s, all()[input.value]));
            field.addEventListener("change", () => change(s, field.value.trim() || s.now()));
            output.append(field);
        } else {
            input = element("input", {id, type: "number", min: 0, step: "any"});
            show = () => { input.value = value(s); };
            input.addEventListener("input", () => change(s, input.value));
        }
        s.show = show;
        return element("div", {class: "setting"}, element("label", {for: id}, s.label), input, output);
    }

    function change(s, v) {
        state[s.name] = v;
        s.show();
        moved();
    }

    function moved() {
        changes++;
        clearTimeout(timer);
        ask(DRAGGING_DRAWS);
        timer = setTimeout(() => { writeFragment(); ask(0); }, REST_MS);
    }

    function build() {
        const reset = element("button", {type: "button"}, "As it is now");
        const copy = element("button", {type: "button"}, "Copy");
        const save = (name, label) => {
            const button = element("button", {type: "button"}, label);

            button.addEventListener("click", () => {
                const link = element("a", {download: name + ".json", href: URL.createObjectURL(new Blob([files[name]]))});

                link.click();
                URL.revokeObjectURL(link.href);
            });
            return button;
        };

        reset.addEventListener("click", () => { state = {}; settings.forEach((s) => s.show()); moved(); });
        copy.addEventListener("click", () => navigator.clipboard.writeText(root.querySelector(".command").textContent));
        root.replaceChildren(
            element("form", {class: "settings", "aria-label": "Settings"}, ...settings.map(control), reset),
            element("div", {class: "answers"},
                    element("p", {class: "error", role: "alert"}), element("div", {class: "lead", "aria-live": "polite"}),
                    element("div", {class: "charts"}), element("div", {class: "grid"}), element("div", {class: "numbers"}),
                    element("p", {class: "in-force"}),
                    element("p", {class: "same"}, "The same from a shell: ", element("code", {class: "command"}), " ", copy, " ", save("job", "Save job.json"), " ", save("cluster", "Save cluster.json")),
                    element("p", {class: "note"}, "The page computes with the program's own model. Its C library rounds some functions another way, so numbers agree with the program's within one part in 10⁹. Drop a job, cluster or forecast file on the page to replace its own.")));
        root.querySelector("form").addEventListener("submit", (e) => e.preventDefault());
        settings.forEach((s) => s.show());
    }

    /* ---- Answers ---- */

    function ask(draws) {
        const begun = performance.now();
        const line = words(), change = changes, request = [...line, ...(draws ? ["--draws=" + draws] : []), ...OUTPUT];

        root.dataset.state = "busy";
        root.dataset.waiting = 1;
        answers({files: {"job.json": files.job, "cluster.json": files.cluster}, words: request}, (result) => {
            root.dataset.words = JSON.stringify(request);
            show(line, draws, result);
            root.dataset.ms = performance.now() - begun;
            root.dataset.waiting = changes - change; /* for tests, as all of the element's data */
        });
    }

    const number = (x, digits = 3) => x === null || x === undefined || Number.isNaN(x) ? "–" : Number(x.toPrecision(digits)).toLocaleString("en");
    const percent = (x) => x === null || x === undefined ? "–" : (100 * x).toFixed(0) + " %";
    const time = (s) => s === null || s === undefined ? "–" : s < 1 ? number(1000 * s) + " ms" : number(s) + " s";

    /* At each count the configuration that was asked for comes first, behind it the current one where that differs. */
    function split(forecast) {
        const asked = [], now = [];

        for (const p of forecast.points)
            (asked.length && asked[asked.length - 1].gpus === p.gpus ? now : asked).push(p);
        return {asked, now};
    }

    function show(line, draws, result) {
        root.querySelector(".error").textContent = result.error;
        root.querySelector(".command").textContent = "lockstep " + line.join(" ");
        root.querySelector(".charts").innerHTML = result.charts.join("");
        root.lockstep = result;
        root.querySelector(".in-force").textContent = "Settings in force: " + inForce();
        root.dataset.state = draws ? "moving" : "rest";
        root.dataset.changed = settings.some(isSet) ? "yes" : "no";
        if (result.forecast) {
            drawn = JSON.parse(result.forecast);
            describe(split(drawn), draws);
            if (!draws && line[0] !== "report")
                askGrid();
        } else {
            root.querySelector(".lead").replaceChildren();
            root.querySelector(".numbers").replaceChildren();
        }
    }

    /* Draw the heat map; a change that comes first takes its place. */
    function askGrid() {
        const line = gridWords(), place = root.querySelector(".grid");

        answers({files: {"job.json": files.job, "cluster.json": files.cluster}, view: "grid", waits: true, words: [...line, "--draws=" + DRAGGING_DRAWS, ...OUTPUT]}, (result) => {
            root.lockstepGrid = Object.assign({words: line}, result); /* for tests */
            place.innerHTML = result.charts.join("");
            place.append(element("p", {class: "same"}, result.error || "All cells: ", element("code", {}, "lockstep " + line.join(" "))));
        });
    }

    function describe({asked, now}, draws) {
        const wanted = Number(value(setting("gpus")));
        const gpus = asked.some((x) => x.gpus === wanted) || !asked.length ? wanted : asked[asked.length - 1].gpus;
        const p = asked.find((x) => x.gpus === gpus), q = now.find((x) => x.gpus === gpus);
        const band = (x) => draws ? "" : ` (${percent(x.efficiency_lo)} to ${percent(x.efficiency_hi)})`;
        const lead = root.querySelector(".lead");

        if (!p)
            return;
        lead.replaceChildren(element("p", {}, `${gpus} GPUs reach ${percent(p.efficiency)}${band(p)} of linear scaling: ${time(p.step_s)} a step, ${number(p.throughput_per_s, 4)} samples/s.`
            + (q ? ` As it is now: ${percent(q.efficiency)}, ${time(q.step_s)}, ${number(q.throughput_per_s, 4)} samples/s.` : "")));
        if (drawn.axes === undefined)
            lead.append(...(drawn.answer || []).map((sentence) => element("p", {}, sentence)));
        else if (drawn.knee_gpus)
            lead.append(element("p", {}, `The knee is at ${drawn.knee_gpus} GPUs: a further node adds less than half of what the first delivers.`));
        lead.append(...deadline(asked, p));
        root.querySelector(".numbers").replaceChildren(table(asked, gpus));
    }

    /* Say which counts of GPUs meet the deadline. */
    function deadline(asked, p) {
        const most = Number(value(setting("deadline"))), hours = (x) => (x.plan || {}).time_to_target_h;

        if (!most)
            return [];
        if (hours(p) === undefined || hours(p) === null)
            return [element("p", {}, "Give the samples to the target: the deadline is held against the time to reach them.")];
        const first = asked.find((x) => hours(x) <= most);

        return [element("p", {}, `The target takes ${number(hours(p))} h on ${p.gpus} GPUs, ${hours(p) <= most ? "within" : "beyond"} the deadline of ${number(most)} h; `
            + (first ? `${first.gpus} GPUs are the fewest here that meet it.` : "no count here meets it."))];
    }

    function table(points, gpus) {
        const columns = [
            ["GPUs", (p) => p.gpus], ["step", (p) => time(p.step_s)], ["efficiency", (p) => percent(p.efficiency)],
            ["from", (p) => percent(p.efficiency_lo)], ["to", (p) => percent(p.efficiency_hi)],
            ["samples/s", (p) => number(p.throughput_per_s, 4)], ["most is lost to", largestLoss],
            ["memory a GPU", (p) => memory(p.plan || {})], ["cost a million samples" + (drawn.currency ? ", " + drawn.currency : ""), (p) => number((p.plan || {}).cost_per_million)],
            ["hours to target", (p) => number((p.plan || {}).time_to_target_h)],
        ].filter(([, cell]) => points.some((p) => cell(p) !== "–"));
        const head = element("tr", {}, ...columns.map(([name]) => element("th", {scope: "col"}, name)));
        const rows = points.map((p) => element("tr", p.gpus === gpus ? {"aria-current": "true"} : {}, ...columns.map(([, cell]) => element("td", {}, String(cell(p))))));

        return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    }

    function memory(plan) {
        const bytes = plan.memory_bytes;

        return bytes ? number(bytes / 2 ** 30) + " GiB" + (plan.memory_fit && plan.memory_fit !== "unknown" ? `, fits: ${plan.memory_fit}` : "") : "–";
    }

    function largestLoss(p) {
        const losses = Object.entries(p.losses_s).filter(([name, s]) => name !== "ideal" && s > 0).sort((a, b) => b[1] - a[1]);

        return losses.length && p.step_s ? `${losses[0][0].replace(/_/g, " ")} ${percent(losses[0][1] / p.step_s)}` : "–";
    }

    /* ---- Files dropped on the page ---- */

    function take(content) {
        const schema = (/"schema"\s*:\s*"([\w-]+)"/.exec(content) || [])[1];

        if (schema === "lockstep-forecast") {
            answers({files: {"forecast.json": content}, words: [], view: "all"}, (result) => {
                root.querySelector(".grid").replaceChildren();
                show(["report", "forecast.json"], 0, result);
            });
            return;
        }
        const kind = {"lockstep-job": "job", "lockstep-cluster": "cluster"}[schema];

        if (!kind)
            throw new Error("it is no job, cluster or forecast file of lockstep");
        files[kind] = content;
        state = {};
        learn();
    }

    /* Ask the model what the current configuration is, then everything. */
    function learn() {
        const words = ["predict", "job.json", "cluster.json", "--gpus=1", "--draws=" + DRAGGING_DRAWS, ...OUTPUT];

        answers({files: {"job.json": files.job, "cluster.json": files.cluster}, words}, (result) => {
            if (result.code !== 0)
                throw new Error(result.error);
            const perNode = /"gpus_per_node"\s*:\s*(\d+)/.exec(files.cluster);

            base = Object.assign({gpus_per_node: perNode ? Number(perNode[1]) : 1}, JSON.parse(result.forecast).points[0]);
            build();
            ask(0);
        });
    }

    document.addEventListener("dragover", (e) => e.preventDefault());
    document.addEventListener("drop", async (e) => {
        e.preventDefault();
        for (const file of e.dataTransfer.files) {
            try {
                take(await file.text());
            } catch (error) {
                root.querySelector(".error").textContent = `${file.name}: ${error.message}`;
            }
        }
    });

    /* ---- Start ---- */

    async function begin() {
        if (typeof WebAssembly === "undefined" || typeof DecompressionStream === "undefined")
            throw new Error("this browser runs no WebAssembly here, or is too old");
        answers = await start();
        readFragment();
        learn();
        window.addEventListener("hashchange", () => { readFragment(); settings.forEach((s) => s.show()); moved(); });
    }

    begin().catch((error) => {
        root.replaceChildren(element("p", {}, `No what-if here: ${error.message}. Ask lockstep whatif in a terminal; all else on the page is complete.`));
        root.dataset.state = "absent";
    });
})();
